"""How a conversation is written: plain lines, or a checkpoint's own template in Jinja's sandbox, within limits."""

from __future__ import annotations

import json
import sys

import pytest
from broken import TEMPLATES
from test_tokenizer import file_tokenizer

from minikv.serving.chat_format import TemplateFormat, Turn, load_format, sandbox
from minikv.serving.tokenizer import ByteTokenizer

pytest.importorskip("jinja2.sandbox")
BYTES = ByteTokenizer()
SAID = [{"role": "user" if i % 2 == 0 else "assistant", "content": f" Turn <{i}>\n" * 5} for i in range(5)]


def rendered(source, said=SAID, **given):
    return sandbox().from_string(source).render(messages=said, **given)


def written(source):
    """What the template writes around "Hi"."""
    return bytes(TemplateFormat(BYTES, source, {}).prompt([], "Hi")).decode()


# -- a checkpoint's own template ------------------------------------------------------------------------------------

TEMPLATE = """{{ bos_token }}{% for message in messages %}
<|{{ message['role'] }}|>{{ message['content'] | trim }}<|end|>
{% if message['role'] not in ('user', 'assistant') %}{{ raise_exception('no such role') }}{% endif %}
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""


def test_a_template_is_rendered_as_transformers_renders_it(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = file_tokenizer(tmp_path)
    special = {"bos_token": "<|end|>"}
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), **special)
    said = [
        {"role": "user", "content": " Hi "},
        {"role": "assistant", "content": "the é"},
        {"role": "user", "content": "?"},
    ]
    wanted = theirs.apply_chat_template(said, chat_template=TEMPLATE, tokenize=False, add_generation_prompt=True)
    ids = TemplateFormat(tokenizer, TEMPLATE, special).prompt([Turn(" Hi ", "the é", [])], "?")
    assert ids == tokenizer.encode(wanted)


@pytest.mark.parametrize("kind", ["text", "named", "file"])
def test_a_template_is_found_wherever_a_checkpoint_keeps_it(tmp_path, kind):
    tokens = {"bos_token": {"content": "<s>"}, "eos_token": None}
    named = [{"name": "tools", "template": "B"}, {"name": "default", "template": "{{ bos_token }}A"}]
    kept = {"text": {"chat_template": "{{ bos_token }}A"}, "named": {"chat_template": named}, "file": {}}
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**tokens, **kept[kind]}))
    if kind == "file":
        (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}A")
    assert bytes(load_format(tmp_path, BYTES).prompt([], "Hi")) == b"<s>A"


def test_a_template_file_may_be_as_long_as_a_template_in_any_script(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    file = tmp_path / "chat_template.jinja"
    file.write_text("A{#" + "\N{GRINNING FACE}" * (2**16 - 5) + "#}", "utf-8")
    assert bytes(load_format(tmp_path, BYTES).prompt([], "Hi")) == b"A"
    file.write_text("x" * (2**18 + 1), "utf-8")
    with pytest.raises(ValueError, match="has more than 262144 bytes"):
        load_format(tmp_path, BYTES)


def test_a_template_that_refuses_and_a_missing_library_say_so(monkeypatch):
    with pytest.raises(ValueError, match="the chat template fails: no such thing"):
        TemplateFormat(BYTES, "{{ raise_exception('no such thing') }}", {}).prompt([], "Hi")
    monkeypatch.setitem(sys.modules, "jinja2.sandbox", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'minikv\[serving\]'"):
        TemplateFormat(BYTES, "", {})


@pytest.mark.parametrize(("settings", "why"), [
    ({"chat_template": 5}, "chat_template in .* is 5: expected text"),
    ({"chat_template": [{"name": "default"}]}, "expected one that is named default"),
    ({"chat_template": [{"template": "x"}]}, "expected one that is named default"),
    ({"chat_template": ""}, "makes no token of a conversation"),
    ({"chat_template": "x", "bos_token": {}}, r"bos_token is \{\}: expected text of at most 1000 characters"),
    ({"chat_template": "x", "bos_token": "x" * 1001}, "bos_token is 'x+…: expected text of at most 1000"),
])  # fmt: skip
def test_a_tokenizer_config_that_makes_no_sense_is_named(tmp_path, settings, why):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=why):
        load_format(tmp_path, BYTES)


@pytest.mark.parametrize(("settings", "why"), [
    ({"eos_token_id": "x"}, "eos_token_id is 'x'"),
    ({"bos_token_id": 40, "vocab_size": 40}, "bos_token_id is 40: expected at most 39"),
])  # fmt: skip
def test_plain_lines_begin_and_end_with_ids_that_the_model_has(tmp_path, settings, why):
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=why):
        load_format(tmp_path, BYTES)
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": [], "bos_token_id": 3, "vocab_size": 40}))
    assert load_format(tmp_path, BYTES).prompt([], "Hi")[0] == 3
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": [7, 9], "vocab_size": 40}))
    cut_off = Turn("Hi", " Hello", [*b" Hello"])
    assert load_format(tmp_path, BYTES).prompt([cut_off], "So?") == [
        *b"User: Hi\nAssistant: Hello", 7, *b"\nUser: So?\nAssistant:",
    ]  # fmt: skip


# -- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", TEMPLATES, ids=lambda source: source[:40])
def test_a_template_that_asks_for_too_much_is_refused_in_one_line(source):
    with pytest.raises(ValueError, match=r"^the chat template ") as caught:
        written(source)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


def test_a_template_has_at_most_65536_characters():
    assert written("A{#" + "x" * 65531 + "#}") == "A"
    with pytest.raises(ValueError, match="it has 65537 characters: expected at most 65536"):
        written("A{#" + "x" * 65532 + "#}")


@pytest.mark.parametrize(("passes", "fails", "why"), [
    ("{{ ('a' * 2**19)|length }}", "{{ 'a' * (2**19 + 1) }}", "a product of 524289: expected at most 524288"),
    ("{{ (2**18 * [1, 2])|length }}", "{{ 2**19 * [1, 2] }}", "a product of 1048576: expected at most 524288"),
    ("{{ (1 * 2**9999) is odd }}", "{{ 2**262143 * 2**262143 * 2 }}", "a product of 524289: expected at most 524288"),
    ("{{ 0.5 * 10**9 }}", "{{ (2**262145) is odd }}", "a power of 524290: expected at most 524288"),
])  # fmt: skip
def test_a_product_and_a_power_are_limited_before_they_are_computed(passes, fails, why):
    assert rendered(passes)
    with pytest.raises(Exception, match=why):
        rendered(fails)


@pytest.mark.parametrize("source", ["{{ 3 * 4 + 2 ** 3 }}", "{{ -2.5 * 3 }}", "{{ 'ab' * 2 }}", "{{ [1] * -1 }}"])
def test_a_product_is_what_it_is_in_jinja(source):
    import jinja2

    assert rendered(source) == jinja2.Environment().from_string(source).render()


def test_blocks_leave_no_white_space_behind_as_in_transformers():
    assert rendered("  {% for m in messages %}{{ m.content }}{% endfor %}", [{"role": "user", "content": "hi"}]) == "hi"


def test_a_template_that_writes_too_much_is_refused_when_it_is_asked():
    """It knows the conversation on which it is tried, and writes more for any other."""
    template = "{% if messages[-1].content != 'Bye' %}{{ 'a' * N }}{% endif %}A"
    most = 2**18
    assert len(TemplateFormat(BYTES, template.replace("N", str(most - 1)), {}).prompt([], "Hi")) == most
    with pytest.raises(
        ValueError, match=f"the chat template fails: it writes {most + 1} characters: expected at most {most}"
    ):
        TemplateFormat(BYTES, template.replace("N", str(most)), {}).prompt([], "Hi")
