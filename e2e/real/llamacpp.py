"""Serves a tiny model with random weights through llama.cpp's own HTTP server.

    python llamacpp.py MODEL.gguf PORT SLOTS [--hidden N --layers N --heads N --feed-forward N]
        [--threads N] [--batch N] [--slot-context N] [--plain-text] [--no-memory] [--pooling mean|rank]

Writes MODEL.gguf when it is missing (a few hundred kB, two layers, a vocabulary of bytes and common
words, unless other sizes are given), starts the server on loopback, prints one line with its address, and serves until its standard
input closes, so that it never outlives the test that started it.
"""

import argparse
import sys
from pathlib import Path

import numpy

CONTEXT = 2048

WORDS = """the of and to in is that it was for on are as with his they at be this from have or by one
had not but what all were when we there can an your which their said if do will each about how up out
them then she many some so these would other into has more her two like him see time could no make than
first been its who now people my made over did down only way find use may water long little very after
words called just where most know get through back much go good new write our me man too any day same
right look think also around another came come work three must because does part""".split()


def vocabulary():
    """Tokens, scores and types of a SentencePiece vocabulary: specials, bytes, letters, words."""
    tokens, scores, types = ["<unk>", "<s>", "</s>"], [0.0, 0.0, 0.0], [2, 3, 3]
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>")
        scores.append(0.0)
        types.append(6)
    pieces = ["\u2581"] + [chr(letter) for letter in range(33, 127)]
    # Every piece on the way to a word must exist, or the merges never reach it.
    for word in WORDS:
        pieces += ["\u2581" + word[:length] for length in range(1, len(word) + 1)]
    seen = set()
    for rank, piece in enumerate(piece for piece in pieces if not (piece in seen or seen.add(piece))):
        tokens.append(piece)
        scores.append(-float(rank))
        types.append(1)
    return tokens, scores, types


def write_model(path: Path, size: argparse.Namespace) -> None:
    """A llama model whose weights are noise from a fixed seed."""
    import gguf

    hidden, layers, heads, feed_forward = size.hidden, size.layers, size.heads, size.feed_forward
    tokens, scores, types = vocabulary()
    random = numpy.random.default_rng(7)

    def noise(*shape):
        return (random.standard_normal(shape) * 0.2).astype(numpy.float32)

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template(
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"
    )
    writer.add_tensor("token_embd.weight", noise(len(tokens), hidden))
    writer.add_tensor("output_norm.weight", numpy.ones(hidden, numpy.float32))
    output = noise(len(tokens), hidden)
    if size.plain_text:
        # Bytes of half a character are never the likeliest, so that no event waits for the other half.
        output[[kind != 1 for kind in types]] = 0.0
    writer.add_tensor("output.weight", output)
    for layer in range(layers):
        name = f"blk.{layer}."
        writer.add_tensor(name + "attn_norm.weight", numpy.ones(hidden, numpy.float32))
        writer.add_tensor(name + "ffn_norm.weight", numpy.ones(hidden, numpy.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(name + part + ".weight", noise(hidden, hidden))
        writer.add_tensor(name + "ffn_gate.weight", noise(feed_forward, hidden))
        writer.add_tensor(name + "ffn_up.weight", noise(feed_forward, hidden))
        writer.add_tensor(name + "ffn_down.weight", noise(hidden, feed_forward))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(asked: argparse.Namespace) -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(asked.model)
    parameters.model_alias = {"tiny"}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = asked.port
    parameters.n_parallel = asked.slots
    parameters.n_ctx = CONTEXT if asked.slot_context is None else asked.slots * asked.slot_context
    parameters.cpuparams.n_threads = asked.threads
    parameters.cpuparams_batch.n_threads = asked.threads
    if asked.batch is not None:
        parameters.n_batch = asked.batch
        parameters.n_ubatch = min(asked.batch, parameters.n_ubatch)
    if asked.no_memory:
        parameters.cache_ram_mib = 0
    if asked.pooling is not None:
        parameters.embedding = True
        parameters.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{asked.pooling.upper()}")
    parameters.endpoint_metrics = True
    parameters.warmup = False
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    print(f"listening on {server.listening_address}", flush=True)
    sys.stdin.read()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("slots", type=int)
    for name, usual in [("hidden", 64), ("layers", 2), ("heads", 4), ("feed-forward", 128), ("threads", 1)]:
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--batch", type=int, help="tokens per batch")
    parser.add_argument("--slot-context", type=int, help="tokens per slot, instead of 2048 for all together")
    parser.add_argument("--plain-text", action="store_true", help="a model that writes no half characters")
    parser.add_argument("--no-memory", action="store_true", help="keep no prompts in memory beside the slots'")
    parser.add_argument("--pooling", choices=["mean", "rank"], help="serve vectors, or scores of pairs")
    return parser.parse_args()


if __name__ == "__main__":
    asked = arguments()
    if not asked.model.exists():
        part = asked.model.with_suffix(".part")
        write_model(part, asked)
        part.rename(asked.model)
    serve(asked)
