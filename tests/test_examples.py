"""What every gallery page must have; that it runs alone, test_copies.py shows."""

import ast
import re

import pytest
from executed import EXAMPLES, ROOT, name_of
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

CURRICULUM = {
    "01_gradient_argument": [
        "first-vjp",
        "bare-backward",
        "shape-rule",
        "ones-trick",
        "sum-is-ones",
        "one-component",
        "matrices",
        "batched-v",
        "v-is-a-weight",
        "what-becomes-of-v",
        "which-way-to-step",
        "upstream",
        "by-hand",
        "small-graph",
        "mixing-samples",
        "gradient-field",
        "chapter-1-questions",
    ],
    "02_jacobians": [
        "reading-a-jacobian",
        "chain-of-jacobians",
        "tensors-in-tensors-out",
        "the-whole-jacobian",
        "pushing-forward",
        "one-jacobian-per-sample",
        "a-jacobian-of-zeros",
        "with-respect-to-parameters",
        "never-built",
        "once-more",
        "check-yourself-2",
    ],
    "03_products": [
        "what-is-a-jvp",
        "jvp-from-vjps",
        "dot-product-test",
        "second-derivatives",
        "hvp",
        "hvp-of-a-network",
        "full-hessian",
        "trace-and-norm",
        "v-depends-on-x",
        "gauss-newton",
        "fisher-of-a-module",
        "accumulating-twice",
        "complex-v",
        "linearize",
        "chapter-3-questions",
    ],
    "04_programs": [
        "loss-as-v",
        "what-losses-send",
        "several-losses",
        "stop-gradient",
        "distillation",
        "gradient-reversal",
        "several-outputs",
        "vjp-of-structures",
        "per-sample-gradients",
        "gradient-norms",
        "external-loss",
        "other-libraries",
        "cut-graphs",
        "through-time",
        "freezing-layers",
        "saliency",
        "through-a-frozen-network",
        "token-gradients",
        "optimise-the-input",
        "forces",
        "stress",
        "pinn",
        "reinforce",
        "discrete-choices",
        "gradient-cache",
        "gradient-penalty",
        "parametrizations",
        "log-det-of-a-flow",
        "ode-adjoint",
        "implicit-differentiation",
        "optimal-transport",
        "hypergradients",
        "across-processes",
        "token-mean",
        "ddp-messages",
        "rows-across-ranks",
        "sharded-parameters",
        "mixed-precision",
        "grad-scaler-order",
        "optimizer-closures",
        "frameworks",
        "chapter-4-questions",
    ],
    "05_mechanics": [
        "gradient-doubled",
        "off-by-a-factor",
        "second-backward",
        "retain-or-create",
        "grad-is-none",
        "zeros-and-equal-rows",
        "part-of-a-tensor",
        "leaves-and-roots",
        "reading-grad-fn",
        "in-place",
        "masked-nan",
        "infinite-slopes",
        "attention-masks",
        "find-the-nan",
        "kinks",
        "no-slope",
        "eigenvectors-nan",
        "singular-matrices",
        "no-grad-detach",
        "what-keeps-a-graph",
        "hooks",
        "module-hooks",
        "gradient-edges",
        "where-hooks-hang",
        "closures-of-zeros",
        "silent-traps",
        "checkpointing",
        "selective-checkpointing",
        "vmap-limits",
        "sparse-and-nested",
        "no-double-backward",
        "functional-buffers",
        "grid-sample",
        "compiled-and-exported",
        "repeated-indices",
        "moving-values",
        "sort-and-topk",
        "quantized",
        "several-threads",
        "chapter-5-questions",
    ],
    "06_own_rules": [
        "custom-function",
        "what-backward-is-handed",
        "ctx-or-saved",
        "deriving-vjps",
        "backward-of-normalisation",
        "gradcheck",
        "twice-differentiable",
        "function-under-transforms",
        "custom-op",
        "build-the-engine",
        "chapter-6-questions",
    ],
    "07_measured": [
        "cost-of-one-vjp",
        "ways-measured",
        "sum-or-ones-speed",
        "memory-measured",
        "sparse-measured",
        "chapter-7-questions",
    ],
    "08_more_on_jacobians": [
        "two-meanings-of-dimension",
        "which-way-up",
        "vjp-and-chain-rule",
        "tensor-jacobian",
        "jacobian-row-by-row",
        "jacobian-at-once",
        "reverse-or-forward",
        "jacobian-per-sample",
        "sparse-jacobian",
        "jacobian-of-parameters",
        "never-forms-j",
        "seeing-jacobians",
        "chapter-2-questions",
    ],
}
FORBIDDEN = {
    "Variable": r"\bautograd\.Variable\b|\bVariable\(",
    ".data": r"\.data\b(?!\w)",
    "FloatTensor": r"\bFloatTensor\b",
    "builtin sum": r"(?<![.\w])sum\(",
    "a word that belittles": r"(?i)\b(simply|obviously|just)\b",
}
WARNS_OF = {"in-place": {".data"}}  # pages whose code shows what others must avoid
COURSE = {"02_jacobians"}  # these end on the next page, and fold their checks
FOLDED = re.compile(r"^\.\. dropdown:: .*\Z", re.M | re.S)  # a text that ends in a box
every_page = pytest.mark.parametrize("page", EXAMPLES, ids=name_of)


def label_of(page):
    return re.search(r"^\.\. _([a-z0-9-]+):$", page.read_text(), re.M)[1]


def test_every_page_of_the_curriculum_is_there_in_order():
    found = {chapter: [] for chapter in CURRICULUM}
    for page in EXAMPLES:
        found[page.parent.name].append(label_of(page))
    assert found == CURRICULUM


@every_page
def test_opens_with_label_title_and_answer(page):
    docstring = ast.get_docstring(ast.parse(page.read_text()), clean=False)
    opening = re.match(
        r"\n\.\. _[a-z0-9-]+:\n\n(?P<title>[^\n]+)\n(?P<line>=+)\n\n(?P<answer>.+)",
        docstring,
        re.S,
    )
    assert opening, "label, title and an answer, in this order"
    assert len(opening["line"]) >= len(opening["title"])
    assert len(re.split(r"\n\s*\n\s*", opening["answer"].strip())) <= 3, "one paragraph"


@every_page
def test_ends_in_a_check_and_where_next(page):
    source = page.read_text()
    assert any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Attribute) and node.attr == "assert_close")
        for node in ast.walk(ast.parse(source))
    ), "a check that can fail"
    *_, last = split_code_and_text_blocks(page)[1]
    assert last[0] == "text"
    if page.parent.name in COURSE:
        assert last[1].startswith("**Next:** ")
    else:
        assert "Where next\n----------" in last[1]
    assert ":ref:" in last[1]


def unfolded_blocks(page):
    """Return the code that a reader sees without opening a box."""
    kind, text = "", ""
    for part, content, *_ in split_code_and_text_blocks(page)[1]:
        if part == "code" and not (kind == "text" and in_a_box(text)):
            yield content
        kind, text = part, content


def in_a_box(text):
    """Tell whether what follows a text belongs to the box that the text ends in."""
    box = FOLDED.search(text)
    return box and all(not line or line[0] in " ." for line in box[0].splitlines())


@every_page
def test_is_readable_in_one_sitting(page):
    if page.parent.name in COURSE:
        longest = 270  # with the answers and checks in its boxes
    else:  # an engine is longer
        longest = 230 if label_of(page) == "build-the-engine" else 175
    assert 60 <= len(page.read_text().splitlines()) <= longest
    for block in unfolded_blocks(page):
        code = [line for line in block.splitlines() if line.strip()]
        assert len(code) <= 12, block


@every_page
@pytest.mark.parametrize("idiom", FORBIDDEN)
def test_avoids(page, idiom):
    if idiom in WARNS_OF.get(label_of(page), ()):
        pytest.skip("the page is about it")
    for kind, content, *_ in split_code_and_text_blocks(page)[1]:
        if idiom == "a word that belittles" and kind == "code":
            continue
        if kind == "text":  # a page may name what it warns of
            content = re.sub(r"``.*?``", "", content)
        assert not re.search(FORBIDDEN[idiom], content), content


def test_the_chapters_have_their_headers():
    for chapter in CURRICULUM:
        header = ROOT / "examples" / chapter / "GALLERY_HEADER.rst"
        assert re.match(
            r"\.\. _(chapter-\d|notes-on-\w+):\n\n.+\n-+\n\n\w", header.read_text()
        )
