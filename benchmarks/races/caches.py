"""The offloaded key-value cache of transformers: as it is, with its order taken out, with events, and on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from benchmarks.races.counts import Counts, Values, farthest
from benchmarks.races.recording import findings
from benchmarks.wild.loops.offloaded_kv_cache import SideStreamCache

RESIDENT = "resident"


@dataclass(frozen=True)
class Sizes:
    """Of the model and of what it continues."""

    layers: int = 12
    width: int = 2048
    heads: int = 16
    vocabulary: int = 32_000
    prompts: int = 8
    prompt_tokens: int = 1024
    new_tokens: int = 8


ON_CPU = Sizes(layers=2, width=32, heads=2, vocabulary=50, prompts=2, prompt_tokens=4, new_tokens=3)


@dataclass(frozen=True)
class Answer:
    """The tokens that a model makes, and how likely each was."""

    tokens: Values
    logits: Values


class WaitsForNothing(torch.cuda.Stream):
    """A stream that leaves out its waits for other streams."""

    def wait_stream(self, stream: torch.Stream) -> None:
        """Not wait."""


class UnorderedCache(DynamicCache):
    """As transformers 5.17 had it: the stream that brings layers back does not wait for them to leave."""

    def __init__(self, config: Any) -> None:
        super().__init__(config=config, offloading=True)
        self.prefetch_stream = WaitsForNothing()


CACHES: dict[str, Callable[[Any], DynamicCache]] = {
    RESIDENT: lambda config: DynamicCache(config=config),
    "offloaded, as it is": lambda config: DynamicCache(config=config, offloading=True),
    "offloaded, unordered": UnorderedCache,
    "offloaded, ordered": SideStreamCache,
}


def measured(out: Path, device: str, repeats: int) -> dict[str, Any]:
    """Let a model with each cache continue the same prompts so many times, and compare with the resident one."""
    generate = _generator(device, ON_CPU if device == "cpu" else Sizes())
    ordered = generate(RESIDENT)
    return {name: _compared(name, generate, ordered, out, device, repeats) for name in CACHES}


def _compared(
    name: str, generate: Callable[[str], Answer], ordered: Answer, out: Path, device: str, repeats: int
) -> dict[str, Any]:
    answers = [generate(name) for _ in range(repeats)]
    tokens, logits = [each.tokens for each in answers], [each.logits for each in answers]
    path = out / f"cache-{name.replace(',', '').replace(' ', '-')}.json.gz"
    return {
        "tokens": asdict(Counts.of(tokens, ordered.tokens)),
        "logits": asdict(Counts.of(logits, ordered.logits)),
        "logits_farthest": farthest(logits, ordered.logits),
        "findings": findings(lambda: generate(name), path, device),
    }


def config_of(sizes: Sizes) -> LlamaConfig:
    """A model like GPT."""
    return LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        intermediate_size=2 * sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        eos_token_id=None,
    )


def _generator(device: str, sizes: Sizes) -> Callable[[str], Answer]:
    """A model of random weights, in float32 so that near ties are rare; without a GPU every cache is resident."""
    config = config_of(sizes)
    torch.manual_seed(0)
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
        prompts = torch.randint(0, sizes.vocabulary, (sizes.prompts, sizes.prompt_tokens))

    def generate(name: str) -> Answer:
        cache = CACHES[RESIDENT if device == "cpu" else name](config)
        found = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            past_key_values=cache,
            max_new_tokens=sizes.new_tokens,
            do_sample=False,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        tokens = found.sequences[:, sizes.prompt_tokens :]
        logits = torch.stack(found.logits, dim=1).gather(2, tokens[:, :, None])
        return Answer(tokens.flatten().tolist(), logits.flatten().tolist())

    return generate
