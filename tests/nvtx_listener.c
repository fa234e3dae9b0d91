/* An NVTX tool for the tests: writes each domain, range and mark as a line of JSON to $NVTX_LISTENER_LOG.
 *
 * A program's NVTX code loads the library named by $NVTX_INJECTION64_PATH at its first call and shows it the
 * slots of its function pointers. The few below are all that the Python package calls, so all that is filled;
 * the rest stay no-ops. Handles are opaque to the program: here a handle is a copy of the name it stands for,
 * never freed, as there are few and the programs are short.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLBACKS_TABLE = 1, CORE2_MODULE = 5 };
enum { MARK = 1, RANGE_START, RANGE_END, RANGE_PUSH, RANGE_POP, REGISTER_STRING = 10, DOMAIN_CREATE = 12 };
enum { ARGB = 1 };
enum { ASCII = 1, REGISTERED = 3 };

struct event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message; /* text, or one of our handles: text as well */
};

typedef void (*any_function)(void);

struct callbacks {
    size_t size;
    int (*module_slots)(int module, any_function ***slots, unsigned *count);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;

static void put(const char *text) {
    if (text == NULL) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < ' ')
            fprintf(out, "\\u%04x", byte);
        else
            fputc(byte, out); /* as it came: whether it is UTF-8 is for the reader to find out */
    }
    fputc('"', out);
}

static void write_line(const char *kind, const char *domain, const struct event *event) {
    const char *message = NULL;
    char color[9] = "";
    if (event != NULL && (event->message_type == ASCII || event->message_type == REGISTERED))
        message = event->message;
    if (event != NULL && event->color_type == ARGB)
        snprintf(color, sizeof color, "%08x", (unsigned)event->color);
    pthread_mutex_lock(&lock);
    fprintf(out, "{\"kind\": \"%s\", \"domain\": ", kind);
    put(domain == NULL ? "" : domain); /* no handle: the default domain */
    fprintf(out, ", \"thread\": %ld, \"message\": ", (long)syscall(SYS_gettid));
    put(message);
    fputs(", \"color\": ", out);
    put(color[0] == '\0' ? NULL : color);
    fputs("}\n", out);
    fflush(out); /* a program that is killed keeps its log */
    pthread_mutex_unlock(&lock);
}

static void mark(const char *domain, const struct event *event) { write_line("mark", domain, event); }

static uint64_t range_start(const char *domain, const struct event *event) {
    write_line("start", domain, event);
    return 1; /* zero would mean that there is no range; nobody here pairs starts with ends */
}

static void range_end(const char *domain, uint64_t id) {
    (void)id;
    write_line("end", domain, NULL);
}

static int range_push(const char *domain, const struct event *event) {
    write_line("push", domain, event);
    return 0; /* the depth, which the Python package does not look at */
}

static int range_pop(const char *domain) {
    write_line("pop", domain, NULL);
    return 0;
}

static char *register_string(const char *domain, const char *text) {
    (void)domain;
    return strdup(text);
}

static char *domain_create(const char *name) {
    write_line("domain", name, NULL);
    return strdup(name);
}

/* Called once for every extension module with NVTX code of its own. Zero refuses, and NVTX stays off. */
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    const struct callbacks *callbacks = export_table(CALLBACKS_TABLE);
    const char *path = getenv("NVTX_LISTENER_LOG");
    any_function **slots;
    unsigned count;

    if (callbacks == NULL || !callbacks->module_slots(CORE2_MODULE, &slots, &count) || count <= DOMAIN_CREATE) {
        fputs("nvtx_listener: this NVTX offers no domain functions\n", stderr);
        return 0;
    }
    pthread_mutex_lock(&lock);
    if (out == NULL && path != NULL)
        out = fopen(path, "a");
    pthread_mutex_unlock(&lock);
    if (out == NULL) {
        fputs("nvtx_listener: cannot write the file named by NVTX_LISTENER_LOG\n", stderr);
        return 0;
    }
    *slots[MARK] = (any_function)mark;
    *slots[RANGE_START] = (any_function)range_start;
    *slots[RANGE_END] = (any_function)range_end;
    *slots[RANGE_PUSH] = (any_function)range_push;
    *slots[RANGE_POP] = (any_function)range_pop;
    *slots[REGISTER_STRING] = (any_function)register_string;
    *slots[DOMAIN_CREATE] = (any_function)domain_create;
    return 1;
}
