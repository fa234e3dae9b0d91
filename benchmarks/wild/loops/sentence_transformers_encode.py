"""sentence-transformers: ``encode`` brings the embeddings of each batch to the host."""

from __future__ import annotations

import random
import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text

WORDS = [f"word{number}" for number in range(2000)]


def _saved(device: str) -> str:
    """A folder with a model of random weights, and a tokenizer of our words."""
    folder = tempfile.mkdtemp()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=256
    )
    fast.save_pretrained(folder)
    width = size(device, 384, 32)
    config = BertConfig(
        vocab_size=len(names), hidden_size=width, num_hidden_layers=size(device, 6, 2),
        num_attention_heads=size(device, 12, 2), intermediate_size=4 * width,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


def _make(fixed: bool, device: str) -> Step:
    encoder = Transformer(_saved(device))
    model = SentenceTransformer(modules=[encoder, Pooling(size(device, 384, 32))], device=device)
    source = random.Random(0)
    texts = [" ".join(source.choices(WORDS, k=source.randint(20, 120))) for _ in range(size(device, 1024, 12))]

    def step() -> torch.Tensor:
        found = model.encode(texts, batch_size=64, convert_to_tensor=fixed, show_progress_bar=False)
        return found.cpu() if fixed else torch.from_numpy(found)

    return step


TEXT = Text(
    package="sentence-transformers",
    title="encode",
    does="A model of the size of MiniLM-L6 embeds 1024 texts in batches of 64.",
    fix="The embeddings stay on the GPU, and are brought to the host at the end.",
    kind=FixKind.SWITCH,
    before="model.encode(texts, batch_size=64)",
    after="model.encode(texts, batch_size=64, convert_to_tensor=True).cpu().numpy()",
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
