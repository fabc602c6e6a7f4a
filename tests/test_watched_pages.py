"""Under watch the pages of the site run as they do without, and show what they are about.

Every page has checks of its own, which hold under watch, too; a page that shows something
wrong on purpose stands in ``SHOWN``. Of the pages that have changed since they passed, or
all when the package has, a run takes some by lot; ``--every-case`` takes all.
"""

import itertools
import json
import os
import sys
from pathlib import Path

from executed import PAGES, ROOT
from sweeps import digest, of, package, untried

from pages import LIBRARIES, PRELOAD, RUNNER, Page, run_jobs
from runner import Block, Order

BY_LOT, TOGETHER = 6, 3  # torch is imported once for so many
#: What pages show on purpose: the names of the rules.
SHOWN = {
    "docs/answers/batches.md": {"mean-of-unequal-batches"},
    "docs/answers/calculus.md": {"not-finite"},
    "docs/answers/checkpoints.md": {"checkpoint-of-another-function"},
    "docs/answers/clipping-and-steps.md": {"not-finite"},
    "docs/answers/ddp.md": {"mean-of-unequal-batches"},
    "docs/answers/does-not-learn.md": {"no-gradient"},
    "docs/answers/forward-mode.md": {
        "jacobian-of-a-closure",
        "once-differentiable-in-a-sum",
    },
    "docs/answers/frameworks.md": {"clipped-while-scaled", "mean-of-unequal-batches"},
    "docs/answers/gradient-in-the-loss.md": {"penalty-without-a-graph"},
    "docs/answers/in-place.md": {"data-hides-changes"},
    "docs/answers/joins.md": {"not-finite"},
    "docs/answers/kinks.md": {
        "clamp-outside",
        "det-of-a-singular-matrix",
        "not-finite",
        "rounding-has-gradient-zero",
    },
    "docs/answers/losses.md": {
        "loss-broadcast",
        "not-finite",
        "probabilities-for-scores",
        "sigmoid-before-bce",
    },
    "docs/answers/many-points.md": {"ones-on-mixed-samples"},
    "docs/answers/matrices-and-angles.md": {"not-finite"},
    "docs/answers/methods-networks.md": {"not-finite"},
    "docs/answers/methods.md": {"once-differentiable-in-a-sum"},
    "docs/answers/mixed-precision.md": {
        "clipped-while-scaled",
        "no-gradient",
        "not-finite",
    },
    "docs/answers/nan.md": {"not-finite"},
    "docs/answers/none.md": {"no-gradient", "optimizer-holds-the-old-parameter"},
    "docs/answers/one-call-or-two.md": {"not-finite"},
    "docs/answers/optimizers.md": {"gradients-accumulate"},
    "docs/answers/picks-and-steps.md": {"not-finite"},
    "docs/answers/releases.md": {"data-hides-changes"},
    "docs/answers/rules.md": {"ones-on-mixed-samples"},
    "docs/answers/second-time.md": {"gradients-accumulate", "not-finite"},
    "docs/answers/several-losses.md": {"not-finite"},
    "docs/answers/shape-of-v.md": {
        "extra-gradients-dropped",
        "gradient-cast",
        "not-finite",
        "weights-broadcast",
    },
    "docs/answers/surrogates.md": {"backward-that-ignores-v"},
    "docs/answers/through-time.md": {"data-hides-changes", "not-finite"},
    "docs/answers/twice-as-large.md": {
        "gradients-accumulate",
        "two-gradients-one-memory",
    },
    "docs/answers/warnings.md": {"loss-broadcast"},
    "docs/answers/what-v-does.md": {"not-finite"},
    "docs/answers/where-v-goes.md": {"repeated-index"},
    "docs/answers/zeros.md": {
        "clamp-outside",
        "jacobian-of-a-closure",
        "ones-on-mixed-samples",
        "sigmoid-before-bce",
    },
    "docs/contract.md": {"extra-gradients-dropped"},
    "docs/corrections.md": {"data-hides-changes"},
    "docs/corrections_tutorials.md": {"data-hides-changes", "extra-gradients-dropped"},
    "docs/fix/finite-differences.md": {"backward-that-ignores-v"},
    "docs/fix/nan.md": {"not-finite"},
    "docs/fix/not-learning.md": {
        "backward-that-ignores-v",
        "hook-in-every-step",
        "loss-broadcast",
        "penalty-without-a-graph",
    },
    "docs/fix/zeros.md": {"clamp-outside", "ones-on-mixed-samples"},
    "docs/play.md": {"clamp-outside"},
    "examples/01_gradient_argument/70_when_ones_mislead.py": {"ones-on-mixed-samples"},
    "examples/01_gradient_argument/80_the_v_you_choose.py": {
        "not-finite",
        "weights-broadcast",
    },
    "examples/01_gradient_argument/95_check_yourself.py": {"ones-on-mixed-samples"},
    "examples/02_jacobians/52_slopes_in_the_loss.py": {"penalty-without-a-graph"},
    "examples/04_programs/05_loss_weights.py": {"not-finite"},
    "examples/04_programs/06_weighting_pixels.py": {"not-finite"},
    "examples/04_programs/07_losses.py": {"not-finite", "probabilities-for-scores"},
    "examples/04_programs/10_several_losses.py": {"extra-gradients-dropped"},
    "examples/04_programs/16_surrogate_losses.py": {"not-finite"},
    "examples/04_programs/25_external_loss.py": {"gradient-cast", "not-finite"},
    "examples/04_programs/27_other_libraries.py": {"data-hides-changes"},
    "examples/04_programs/30_pipeline.py": {"not-finite"},
    "examples/04_programs/32_through_time.py": {"not-finite"},
    "examples/04_programs/38_optimise_the_input.py": {"clamp-outside"},
    "examples/04_programs/40_forces.py": {"not-finite"},
    "examples/04_programs/55_gradient_cache.py": {"all-gather-has-no-gradient"},
    "examples/04_programs/72_token_mean.py": {"not-finite"},
    "examples/04_programs/82_grad_scaler.py": {"clipped-while-scaled"},
    "examples/04_programs/85_closures.py": {"gradients-accumulate", "no-gradient"},
    "examples/05_mechanics/05_gradient_doubled.py": {"gradients-accumulate"},
    "examples/05_mechanics/22_zeros_and_equal_rows.py": {"ones-on-mixed-samples"},
    "examples/05_mechanics/30_in_place.py": {"data-hides-changes"},
    "examples/05_mechanics/35_masked_nan.py": {"not-finite"},
    "examples/05_mechanics/36_infinite_slopes.py": {"not-finite"},
    "examples/05_mechanics/37_attention_masks.py": {"not-finite"},
    "examples/05_mechanics/38_where_nan_begins.py": {"not-finite"},
    "examples/05_mechanics/39_which_line.py": {
        "cleared-before-the-step",
        "loss-broadcast",
        "not-finite",
    },
    "examples/05_mechanics/41_no_slope.py": {"clamp-outside"},
    "examples/05_mechanics/43_singular_matrices.py": {
        "det-of-a-singular-matrix",
        "not-finite",
    },
    "examples/05_mechanics/55_closures_of_zeros.py": {"jacobian-of-a-closure"},
    "examples/05_mechanics/60_silent_traps.py": {
        "extra-gradients-dropped",
        "gradient-cast",
        "loss-broadcast",
        "mean-of-unequal-batches",
        "not-finite",
    },
    "examples/05_mechanics/65_checkpointing.py": {"checkpoint-of-another-function"},
    "examples/05_mechanics/80_repeated_indices.py": {"repeated-index"},
    "examples/05_mechanics/83_quantized.py": {"clamp-outside"},
    "examples/05_mechanics/90_questions_5.py": {"jacobian-of-a-closure"},
    "examples/06_own_rules/05_custom_function.py": {"broadcast-gradient-summed"},
    "examples/06_own_rules/08_ctx_or_saved.py": {"saved-intermediate"},
    "examples/06_own_rules/20_twice_differentiable.py": {
        "once-differentiable-in-a-sum",
        "saved-intermediate",
    },
    "examples/06_own_rules/90_questions_6.py": {"saved-intermediate"},
    "examples/08_more_on_jacobians/30_at_once.py": {"jacobian-of-a-closure"},
    "examples/08_more_on_jacobians/60_seeing.py": {"ones-on-mixed-samples"},
    "examples/08_more_on_v/45_weights.py": {"extra-gradients-dropped"},
}
#: Pages that insist on compiling, or on torch.cond under vmap, which a mode forbids; one
#: that compiles a module, of which torch warns while a block has hooks on all modules; one
#: that counts on memory to be freed at once, which waits for the end of the block; and one
#: that trains with a jvp in each of 800 steps, which takes minutes.
LEFT_OUT = {
    "docs/answers/compile.md",
    "docs/answers/hessian-products.md",
    "docs/answers/own-function.md",
    "docs/answers/same-numbers.md",
    "examples/03_products/50_accumulating.py",
    "examples/04_programs/68_mean_flow.py",
    "examples/05_mechanics/53_where_hooks_hang.py",
    "examples/05_mechanics/70_vmap_limits.py",
    "examples/06_own_rules/27_custom_op.py",
}
#: Pages that take more than a minute of a processor: ``--every-case`` alone takes them.
SLOW = {
    "examples/04_programs/40_forces.py",
    "examples/04_programs/45_pinn.py",
    "examples/04_programs/64_ode_adjoint.py",
    "examples/04_programs/66_optimal_transport.py",
}
OPEN = "import pullback as _p; _block = _p.watch(); _seen = _block.__enter__()"
CLOSE = """
import json as _json, sys as _sys
_block.__exit__(None, None, None)
if "matplotlib.pyplot" in _sys.modules:
    _sys.modules["matplotlib.pyplot"].close("all")  # that no one will look at
_found = [(finding.rule, str(finding)) for finding in _seen]
print("\\n" + _json.dumps({"found": _found, "unseen": _seen.unseen}))
"""


class Watched(Page):
    """A page of which each part that stands alone runs in one watched block."""

    def job(self):
        whole = super().job()
        blocks = []
        for part in parts(whole["blocks"]):
            code = self.text if self.source.suffix == ".py" else code_of(part)
            tags = sorted({tag for block in part for tag in block["tags"]})
            blocks.append(Block(line=1, code=OPEN, tags=[], forgets=bool(blocks)))
            blocks.append(Block(line=1, code=code + CLOSE, tags=tags))
        return {**whole, "blocks": blocks}


def code_of(blocks):
    return "\n".join(block["code"] for block in blocks)


def parts(blocks):
    """Cut the blocks of a page where one forgets the names."""
    starts = [i for i, block in enumerate(blocks) if i == 0 or block.get("forgets")]
    return [blocks[i:j] for i, j in itertools.pairwise([*starts, len(blocks)])]


def state(page):
    """Return a digest of all that decides what is found on a page."""
    shown = sorted(SHOWN.get(page.name, ()))
    named = [of(Path(file)) for file in page.files.values()]
    return digest(package(), page.text, *shown, *named)


def place(page):
    """Return where it is noted that a page has passed."""
    return f"watched/{page.name}"


def lot(config):
    """Return the names of the pages of this run, a few together."""
    pages = {place(page): page for page in PAGES.values() if page.name not in LEFT_OUT}
    if config.getoption("--every-case"):
        taken = sorted(pages)
    else:
        quick = {at: page for at, page in pages.items() if page.name not in SLOW}
        taken = untried(config.cache, quick, state)[:BY_LOT]
    names = [pages[at].name for at in taken]
    return [names[i : i + TOGETHER] for i in range(0, len(names), TOGETHER)]


def pytest_generate_tests(metafunc):
    metafunc.parametrize("names", lot(metafunc.config), ids=lambda names: names[0])


def test_pages_show_what_they_are_about_and_nothing_else(names, pytestconfig):
    pages = {name: Watched(ROOT, name) for name in names}
    code = "\n".join(page.text for page in pages.values())
    order = Order(
        package="pullback",
        importable=LIBRARIES,
        preload=[name for name in PRELOAD if name.partition(".")[0] in code],
        processes=1,
        limit=600,
        jobs=[page.job() for page in pages.values()],
    )
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    wrong = []
    environment = {**os.environ, "PYTHONPATH": path}
    for result in run_jobs(order, [sys.executable, str(RUNNER)], environment):
        name = result["name"]
        told = [block["stdout"].splitlines()[-1] for block in result["shown"][1::2]]
        found = [pair for line in told for pair in json.loads(line)["found"]]
        unseen = [text for line in told for text in json.loads(line)["unseen"]]
        others = [text for rule, text in found if rule not in SHOWN.get(name, ())]
        gone = SHOWN.get(name, set()) - {rule for rule, _ in found}
        if result["failure"] or others or unseen or gone:
            wrong += [name, result["failure"], *others, *unseen, f"not shown: {gone}"]
        else:
            page = PAGES[ROOT / name]
            pytestconfig.cache.set(place(page), state(page))
    assert not wrong, "\n\n".join(filter(None, wrong))
