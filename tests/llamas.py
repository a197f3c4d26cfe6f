"""Tiny models for tests: random configs as a `config.json` says them, and a store that keeps them honest."""

import random

import torch

from minikv.serving.checkpoint import LlamaConfig
from minikv.serving.llama import Llama
from minikv.store import KVStore

SIZES = {"vocab_size": 23, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}  # fmt: skip


def settings(**changed):
    return {"model_type": "llama", **SIZES, "num_key_value_heads": 2, **changed}


def llama(seed=0, dtype=torch.float32, **changed):
    model = Llama.random(LlamaConfig.read(settings(**changed)), seed)
    return Llama(model.config, {name: weight.to(dtype) for name, weight in model.weights.items()})


def store_for(model, num_slots=256, page_size=1, **changed):
    return KVStore(model.shape, num_slots // page_size, page_size, dtype=model.dtype, **changed)


def scattered(count, page_size=1, num_slots=256, seed=0):
    """`count` slots on pages drawn at random, whole pages in order, as a sequence's row has them."""
    pages = random.Random(seed).sample(range(num_slots // page_size), -(-count // page_size))
    return [page * page_size + i for page in pages for i in range(page_size)][:count]


def everywhere(chunks):
    """`chunks`, with logits wanted behind each of their tokens."""
    return [chunk._replace(num_logits=len(chunk.tokens)) for chunk in chunks]
