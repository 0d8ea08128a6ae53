"""Reference values of a GPT-2 with random weights, for crates/nn/tests/huggingface.rs.

The model is that of Hugging Face's transformers. Usage:

    pip install torch==2.11.* transformers safetensors numpy
    python tests/reference/gpt2.py

The script writes the folder gpt2 next to itself: config.json and model.safetensors, as written by
`save_pretrained`, and case.json. The weights are stored in float16 and read as float32 by both
libraries; everything is computed in float32. The weights are larger than the initial weights of
GPT-2, so that the logits differ from each other.
"""

import json
import sys
from pathlib import Path

# Python searches the folder of this script first, where transformers.py would hide the package.
sys.path.pop(0)

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(22)
FOLDER = Path(__file__).parent / "gpt2"
CONTEXT = 32


def make():
    """Writes the folder with the model."""
    config = GPT2Config(
        vocab_size=96, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape) * 0.2
            parameter.copy_(drawn + 1 if "ln_" in name and name.endswith("weight") else drawn)
    model.half().save_pretrained(FOLDER)
    # Sampling options, which nothing here reads.
    (FOLDER / "generation_config.json").unlink(missing_ok=True)


def numbers(tensor):
    return [float(f"{x:.7g}") for x in tensor.flatten().tolist()]


def uncached(model, tokens, count):
    """Returns the `count` most likely next tokens, each predicted from all tokens before it."""
    for _ in range(count):
        tokens = tokens + [model(torch.tensor([tokens])).logits[0, -1].argmax().item()]
    return tokens[-count:]


def text_loss(model, tokens, stride):
    """Returns the mean loss of windows of CONTEXT tokens, which begin every `stride` tokens.

    Each token is counted in the first window that predicts it.
    """
    losses = []
    for begin in range(0, len(tokens) - 1, stride):
        window = torch.tensor([tokens[begin : begin + CONTEXT + 1]])
        logits = model(window[:, :-1]).logits[0]
        new = torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="none")
        losses += new[len(losses) - begin :].tolist()
    assert len(losses) == len(tokens) - 1
    return sum(losses) / len(losses)


def case():
    model = GPT2LMHeadModel.from_pretrained(FOLDER, dtype=torch.float32).eval()
    tokens = torch.randint(96, (2, 12))
    text = torch.randint(96, (80,)).tolist()
    with torch.no_grad():
        logits = model(tokens).logits
        return {
            "torch": torch.__version__.split("+")[0],
            "transformers": transformers.__version__,
            "tokens": tokens.tolist(),
            "logits": numbers(logits),
            "prompt": tokens[0].tolist(),
            "generated": uncached(model, tokens[0].tolist(), 20),
            "text": text,
            "text_loss": {str(stride): text_loss(model, text, stride) for stride in (CONTEXT, 7)},
        }


if __name__ == "__main__":
    make()
    (FOLDER / "case.json").write_text(json.dumps(case()) + "\n")
