"""Chat templates in their sandbox: what real ones use works as it does elsewhere, and the rest is refused by count."""

from __future__ import annotations

import pytest
from hostile import TEMPLATES

from minikv.serving.chat_format import TemplateFormat
from minikv.serving.template import STEPS, BoundedSandbox
from minikv.serving.tokenizer import ByteTokenizer

jinja2 = pytest.importorskip("jinja2.sandbox")
SAID = [{"role": "user" if i % 2 == 0 else "assistant", "content": f" Turn <{i}>\n" * 5} for i in range(5)]


def rendered(source, said=SAID, **given):
    sandbox = BoundedSandbox()
    return sandbox.render(sandbox.compiled(source), said, **given)


REAL = [
    "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m['content'].strip() }}{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }}"
    "{{ loop.last }}{% else %}none{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}"
    "{% set ns.n = ns.n + m.content|length %}{% endfor %}{{ ns.n }}",
    "{% macro one(m, end='.') %}{{ m.role|upper ~ end ~ 1 ~ none }}{% endmacro %}"
    "{% for m in messages %}{{ one(m) }}{% endfor %}",
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}"
    "{% else %}{% set rest = messages %}{% endif %}{{ rest|length }}",
    "{{ messages|tojson(indent=2) }}{{ {'a': '<é>', 'b': [1, none, true]}|tojson }}",
    "{{ messages|map(attribute='role')|join(', ') }}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
    "{{ 'a</think>b'.split('</think>')[-1].lstrip('\n') }}{{ 'x'.startswith('x') and 'y' in 'xyz' }}"
    "{{ 7 % 3 * 2 - 1 }}",
    "{% for key, value in {'b': 1, 'a': 2}|dictsort %}{{ key }}={{ value }} {% endfor %}{{ {'k': 1}.items()|list }}",
    "{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}"
    "{% if i > 1 %}{% break %}{% endif %}{% endfor %}",
    "{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}in{% endcall %}"
    "{% filter upper %}abc{% endfilter %}",
    "{{ tools is defined }}{{ tools is not none }}{{ bos_token is string }}{{ 3 is odd }}"
    "{{ 'a' is in 'abc' }}{{ x|default('d') }}",
    "{% set text %}{{ messages[-1].content|trim|replace('\n', ' ') }}{% endset %}{{ text|safe }}"
    "{{ 2 ** 10 }}{{ -3|abs }}",
    "  {% for m in messages %}\n  {{ m.role }}\n  {% endfor %}\n",
]  # fmt: skip


@pytest.mark.parametrize("source", REAL)
def test_what_real_templates_use_gives_what_jinjas_own_sandbox_gives(source):
    theirs = jinja2.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    theirs.filters["tojson"] = BoundedSandbox().filters["tojson"]
    wanted = theirs.from_string(source).render(messages=SAID, bos_token="<s>")
    assert rendered(source, bos_token="<s>") == wanted


def said_of(source):
    """What using the template says, or what it writes."""
    try:
        return bytes(TemplateFormat(ByteTokenizer(), source, {}).prompt([], "Hi")).decode()
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("source", TEMPLATES, ids=lambda source: source[:40])
def test_a_hostile_template_is_refused_in_one_line(source):
    said = said_of(source)
    assert said.startswith("the chat template ") or not said
    assert said.isprintable()
    assert len(said) < 250


def test_a_template_has_at_most_65536_characters():
    assert said_of("A{#" + "x" * 65531 + "#}") == "A"
    assert said_of("A{#" + "x" * 65532 + "#}").endswith("it has 65537 characters: expected at most 65536")


LOOP = "{% for a in range(50000) %}{% for b in range(50000) %}{% endfor %}{% endfor %}"


def test_work_is_counted_and_the_count_is_the_same_every_time():
    """A turn of the inner loop takes as many steps as the loop has nodes, about 10; none is free."""
    sandboxes = [BoundedSandbox(), BoundedSandbox()]
    for sandbox in sandboxes:
        with pytest.raises(Exception, match=f"it takes more than {STEPS} steps"):
            sandbox.render(sandbox.compiled(LOOP), [])
    assert sandboxes[0]._left == sandboxes[1]._left
    assert -100 < sandboxes[0]._left < 0


COSTLY = {  # each looks at all of a text of 100,000 characters, in each of 30 turns
    "slice": "{% set t = s[::-1] %}",
    "comparison": "{{ s == 'b' }}",
    "search": "{{ 'b' in s }}",
    "test": "{{ s is lower }}",
    "joining": "{% set t = s ~ '' %}",
    "operator": "{% set t = s + '' %}",
    "filter": "{% set t = s|upper %}",
    "method": "{% set t = s.upper() %}",
    "method of no text": "{{ s.find('b') }}",
    "argument": "{% set t = 'a'.find(s) %}",
    "writing": "{{ s }}",
}


@pytest.mark.parametrize("kind", COSTLY)
def test_whatever_looks_at_a_long_text_takes_steps_for_its_length(kind):
    loop = "{% set s = 'ab' * 50000 %}{% for i in range(N) %}" + COSTLY[kind] + "{% endfor %}"
    rendered(loop.replace("N", "1"), [])
    with pytest.raises(Exception, match="it takes more than"):
        rendered(loop.replace("N", "30"), [])


def test_what_looks_at_no_content_takes_the_same_steps_for_a_long_text():
    loop = "{% for i in range(999) %}{{ s|length }}{{ s is string }}{% if s %}{% endif %}{% endfor %}"
    assert rendered("{% set s = 'ab' * 50000 %}" + loop, []) == "100000True" * 999


def test_what_a_loop_passes_over_takes_steps_too():
    with pytest.raises(Exception, match="it takes more than"):
        rendered("{% for i in range(99999) if none and none and none %}{% endfor %}", [])


@pytest.mark.parametrize(("passes", "fails", "why"), [
    ("{{ 1 ** 64 }}", "{{ 1 ** 65 }}", "a power: expected an exponent of at most 64"),
    ("{{ 2 ** 30 * 2 ** 29 }}", "{{ 2 ** 30 * 2 ** 30 }}", "an integer of 61 bits: expected at most 60"),
    ("{{ ('a' * 2**19)|length }}", "{{ 'a' * (2**19 + 1) }}", "a product of 524289: expected at most 524288"),
    ("{{ [1]|tojson(indent=64) }}", "{{ [1]|tojson(indent=65) }}", "an indent of 65: expected at most 64"),
    ("{{ [1]|tojson(indent=' '*64) }}", "{{ [1]|tojson(indent=' '*65) }}", "an indent of 65: expected at most 64"),
    ("{{ 'ab'.replace('a', 'c') }}", "{{ ('a' * 9999).replace('', 'c' * 9999) }}", "a product of 99980001: expected"),
    ("{{ ('a' * 9999).strip('b' * 99) ~ 'ab'.rsplit('b', 1)[0] }}", "{{ ('\u0101' * 9999).strip('b' * 9999) }}",
     "a product of 99980001: expected"),
    ("{{ 'a'|trim('b') }}", "{{ ('a' * 9999)|trim('b' * 9999) }}", "a product of 99980001: expected"),
    ("{{ 'ab'.rfind('a') }}", "{{ ('a' * 9999).rfind('a' * 9999) }}", "a product of 99980001: expected"),
    ("{{ '7' ~ 7 % 3 }}", "{{ '%d' % 7 }}", "a format: expected numbers on both sides of %"),
    ("{{ 'a'.upper() }}", "{{ 'a'.center(9) }}", "a call of center: chat templates have no need of it"),
    ("{{ [namespace(a=1)]|length }}", "{{ namespace(a=1) }}", "a Namespace cannot be written"),
])  # fmt: skip
def test_each_rule_of_what_may_grow_is_kept_at_its_border(passes, fails, why):
    assert rendered(passes)
    with pytest.raises(Exception, match=why):
        rendered(fails)


def test_steps_grow_with_the_conversation_and_not_with_earlier_renders():
    sandbox = BoundedSandbox()
    template = sandbox.compiled("{% for m in messages %}{{ m.content|trim|upper }}{% endfor %}")
    long = [{"role": "user", "content": "x" * 400_000}] * 2
    assert [len(sandbox.render(template, long)) for _ in range(3)] == [800_000] * 3


def test_a_list_in_itself_many_times_over_is_counted_at_its_full_size():
    nested = (
        "{% set n = namespace(x=[1]) %}{% for i in range(N) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}"
    )
    assert rendered(nested.replace("N", "8")).count("1") == 256
    with pytest.raises(Exception, match="it takes more than"):
        rendered(nested.replace("N", "40"))


DEEP = "{% set n = namespace(x=()) %}{% for i in range(N) %}{% set n.x = (n.x, n.x) %}{% endfor %}"
LOOKS_INTO_IT = {
    "key": "{% set d = {n.x: 1} %}ok",
    "subscript": "{{ {1: 2}[n.x] }}ok",
    "attribute": "{{ [{}]|map(attribute=n.x, default=0)|list }}ok",
    "argument of a test": "{{ 1 is in n.x }}ok",
    "test of a filter": "{{ [1]|select('in', n.x)|list }}ok",
    "text of a namespace": "{{ [n] }}ok",
    "key of a pair": "{% set d = dict([(n.x, 1)]) %}ok",
    "unique": "{{ [n.x]|unique|list|length }}ok",
}


@pytest.mark.parametrize("kind", LOOKS_INTO_IT)
def test_what_hashes_or_compares_a_nested_tuple_is_counted_at_its_full_size(kind):
    """40 levels are 2**40 tuples, though a template of 100 characters makes them: a hash would visit each."""
    source = DEEP + LOOKS_INTO_IT[kind]
    assert rendered(source.replace("N", "3")).endswith("ok")
    if kind == "text of a namespace":  # it does not show what it holds
        assert rendered(source.replace("N", "40")).endswith("ok")
    else:
        with pytest.raises(Exception, match="it takes more than"):
            rendered(source.replace("N", "40"))


def test_the_bounds_of_a_slice_are_counted_before_a_dictionary_hashes_them():
    with pytest.raises(Exception, match="it takes more than"):
        rendered(DEEP.replace("N", "40") + "{{ {1: 2}[n.x:] }}")


MANY_TIMES = {  # each does a little to each of many items, many times
    "membership": "{% for i in range(9999) %}{{ 'x' in r }}{% endfor %}",
    "membership, as a test": "{% for i in range(9999) %}{{ 'x' is in r }}{% endfor %}",
    "selection": "{{ (['x'] * 9999)|select('in', r)|list }}",
    "attributes": "{{ ([{}] * 9999)|map(attribute='a.' * 9999, default={})|list }}",
    "JSON": "{{ ([1] * 9999)|tojson(separators=(' ' * 9999, ''))|length }}",
    "JSON with an indent": "{{ [[[[[[[[[1] * 29999]]]]]]]]|tojson(indent=64)|length }}",
    "equal hashes": "{{ range(0, (2**61 - 1) * 9999, 2**61 - 1)|unique|list }}",
}


@pytest.mark.parametrize("kind", MANY_TIMES)
def test_a_little_work_on_many_items_many_times_is_counted(kind):
    for made in ("range(99999)", "range(9999)|list"):
        with pytest.raises(Exception, match=r"it takes more than|an integer of 62 bits"):
            rendered("{% set r = " + made + " %}" + MANY_TIMES[kind])


def test_a_template_cannot_change_what_it_is_given_nor_count_for_itself():
    assert rendered("{{ messages.append is defined }}{{ messages.clear is defined }}") == "FalseFalse"
    with pytest.raises(Exception, match="is unsafe"):
        rendered("{{ messages.append(1) }}")
    with pytest.raises(Exception, match="it takes more than"):
        rendered("{{ [1, 2, 3]|map('_spent', -10**9)|list }}")


def test_blocks_leave_no_white_space_behind_as_in_transformers():
    assert rendered("  {% for m in messages %}{{ m.content }}{% endfor %}", [{"role": "user", "content": "hi"}]) == "hi"


def test_a_template_that_writes_far_more_than_it_is_given_is_refused_when_it_is_read():
    with pytest.raises(ValueError, match="writes 4097 characters around Hi, Hello and Bye"):
        TemplateFormat(ByteTokenizer(), "x" * 4097, {})


def test_a_template_that_writes_far_more_than_a_question_is_refused_when_it_is_asked():
    """It knows the conversation on which it is tried, and writes more for any other."""
    template = "{% if messages[-1].content != 'Bye' %}{{ 'a' * N }}{% endif %}A"
    most = 4096 + 2 * len("Hi") + 256
    assert len(TemplateFormat(ByteTokenizer(), template.replace("N", str(most - 1)), {}).prompt([], "Hi")) == most
    with pytest.raises(
        ValueError, match=f"the chat template writes {most + 1} characters here: expected at most {most}"
    ):
        TemplateFormat(ByteTokenizer(), template.replace("N", str(most)), {}).prompt([], "Hi")
