"""The catalogue of all checks, in the order in which their answers matter to an audit."""

from __future__ import annotations

from overlapscope.fitness.answer import Check
from overlapscope.fitness.checks import calls, device, program, recording

CHECKS: tuple[Check, ...] = (
    Check("gpu-idle", "When was the GPU idle?", "when the GPU was idle", recording.gpu_idle, basis=True),
    Check("complete", "Is everything that ran in the trace?", "completeness", recording.complete, basis=True),
    Check(
        "one-stretch",
        "Is it one stretch of the program?",
        "one stretch of the program",
        recording.one_stretch,
        basis=True,
    ),
    Check("clocks", "How long after its call did work start?", "launch delays", recording.clocks, basis=True),
    Check(
        "launches",
        "Which call issued each kernel and copy?",
        "which calls issued the work",
        calls.launches,
        basis=True,
    ),
    Check("blocked", "How long did calls block the host?", "for how long calls blocked the host", calls.blocked),
    Check("memory", "Which copies are pageable, which pinned?", "which copies are pageable", device.memory),
    Check("stream-waits", "What did streams wait for?", "what streams waited for", device.waits),
    Check("host-waits", "What did the host wait for?", "what the host waited for", calls.host_waits),
    Check("unprofiled", "What did the profiler cost?", "the profiler's cost", recording.unprofiled),
    Check("steps", "How long does a step take?", "steps", program.steps, core=False),
    Check("ranges", "Which part of the program was it?", "named ranges", program.ranges, core=False),
    Check("operators", "Which operator of PyTorch issued it?", "operators", program.operators, core=False),
    Check("source", "Which line of the program was it?", "source lines", program.source, core=False),
    Check("modules", "Which module of the model was it?", "names of modules", program.modules, core=False),
    Check("tensors", "Which copies use the same memory?", "races of copies", device.tensors, core=False),
    Check("loaders", "How are the DataLoaders set up?", "settings of DataLoaders", program.loaders, core=False),
    Check("ranks", "How does it compare with other ranks?", "the rank", program.ranks, core=False),
)
"""All checks."""
