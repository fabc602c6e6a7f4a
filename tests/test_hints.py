"""What hints adds to errors and warnings, and what it leaves alone."""

import asyncio
import contextlib
import gc
import linecache
import logging
import re
import subprocess
import sys
import threading
import traceback
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch
from forks import run_code

import pullback
from pullback import _changed, _hints, _messages, _recognition, hints


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = warnings.formatwarning, sys.excepthook, threading.excepthook
    yield
    assert (warnings.formatwarning, sys.excepthook, threading.excepthook) == before


@pytest.fixture
def warn_always():
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


def leaf(*shape):
    return torch.ones(shape, requires_grad=True)


def vector_without_gradient(*shape):
    (leaf(*shape) ** 2).backward()


def notes(error):
    return getattr(error, "__notes__", [])


def test_the_note_has_cause_fix_and_page():
    with pytest.raises(RuntimeError) as raised, hints():
        vector_without_gradient(2, 3)
    (note,) = notes(raised.value)
    assert [line[:6] for line in note.splitlines() if line[0] != " "] == [
        "why:  ",
        "fix:  ",
        "more: ",
    ]
    assert note.endswith("\nmore: python -m pullback explain scalar-outputs")
    assert "of shape (2, 3)" in note
    assert max(map(len, note.splitlines())) <= 88


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_output_that_has_no_shape_to_tell_gets_its_note():
    nested = torch.nested.nested_tensor([leaf(2), leaf(3)], requires_grad=True)
    with pytest.raises(RuntimeError, match="only for scalar outputs") as raised, hints():
        (nested * 2).backward()
    assert "of shape `y.shape`" in " ".join(notes(raised.value)[0].split())


def test_words_of_a_function_of_torch_get_their_note():
    for call, page in (
        (lambda: torch.autograd.graph.get_gradient_edge(torch.ones(2)), "no-node"),
        (lambda: torch.norm((torch.ones(2),)), "grad-returns-a-tuple"),
    ):
        with pytest.raises((RuntimeError, AttributeError)) as raised, hints():
            call()
        assert page in notes(raised.value)[0]


def test_type_text_and_traceback_are_untouched():
    try:
        vector_without_gradient(3)
    except RuntimeError as error:
        bare = error
    with pytest.raises(RuntimeError) as raised, hints():
        vector_without_gradient(3)
    assert type(raised.value) is type(bare) is RuntimeError
    assert str(raised.value) == str(bare)
    assert raised.value.args == bare.args
    frames = [frame.name for frame in traceback.extract_tb(raised.tb)[1:]]
    assert frames == [frame.name for frame in traceback.extract_tb(bare.__traceback__)[1:]]


def test_shapes_of_the_caller_are_filled_in():
    with pytest.raises(RuntimeError) as raised, hints():
        (leaf(4, 5) ** 2).backward(torch.ones(5, 4))
    (note,) = notes(raised.value)
    assert "`v` has shape (5, 4), the output has shape (4, 5)" in " ".join(note.split())


@pytest.mark.parametrize(
    "error",
    [
        ValueError("grad can be implicitly created only for scalar outputs"),
        RuntimeError("out of paper"),
        RuntimeError(),
        RuntimeError(3, "grad can be implicitly created only for scalar outputs"),
        TypeError("'float' object is not iterable"),
        KeyboardInterrupt(),
        SystemExit(1),
    ],
    ids=repr,
)
def test_other_errors_are_left_alone(error):
    with pytest.raises(type(error)) as raised, hints():
        raise error
    assert raised.value is error
    assert notes(error) == []


def test_words_that_anyone_could_raise_need_torch_behind_them():
    with pytest.raises(TypeError) as ours, hints():
        leaf().backward(1.0)
    with pytest.raises(TypeError) as theirs, hints():
        tuple(1.0)
    assert str(ours.value) == str(theirs.value)
    assert len(notes(ours.value)) == 1
    assert notes(theirs.value) == []


def test_words_of_python_need_a_gradient_on_their_line():
    x, nothing = leaf(3), None
    with pytest.raises(AttributeError) as ours, hints():
        x.grad.zero_()
    with pytest.raises(AttributeError) as theirs, hints():
        nothing.zero_()
    assert str(ours.value) == str(theirs.value)
    assert len(notes(ours.value)) == 1
    assert notes(theirs.value) == []
    with pytest.raises(TypeError) as update, hints():
        0.1 * x.grad
    assert "grad-is-none" in notes(update.value)[0]


@pytest.mark.parametrize("saved", [(), (1,), (1, 2, 3)])
def test_another_number_of_saved_tensors_has_the_note(saved):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(*(x for _ in saved))
            return 2 * x

        @staticmethod
        def backward(ctx, v):
            _, _ = ctx.saved_tensors
            return 2 * v

    with pytest.raises(ValueError, match="values to unpack") as ours, hints():
        Twice.apply(leaf()).backward()
    with pytest.raises(ValueError, match="values to unpack") as theirs, hints():
        _, _ = saved
    assert str(ours.value) == str(theirs.value)
    assert "saved-tensors-empty" in notes(ours.value)[0]
    assert notes(theirs.value) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda model: torch.optim.SGD(model, lr=0.1),
        lambda model: torch.nn.utils.clip_grad_norm_(model, 1.0),
        lambda model: torch.nn.utils.clip_grad_value_(model, 1.0),
        lambda model: torch.autograd.grad(model(torch.ones(1)), model),
        lambda model: model(torch.ones(1)).backward(inputs=model),
    ],
)
def test_a_module_for_its_parameters_has_the_note(use):
    with pytest.raises(TypeError) as ours, hints():
        use(torch.nn.Linear(1, 1))
    asks = len if "has no len" in str(ours.value) else set  # the first before 2.7
    with pytest.raises(TypeError) as theirs, hints():
        asks(torch.nn.Linear(1, 1))
    assert str(ours.value) == str(theirs.value)
    assert "module-is-not-iterable" in notes(ours.value)[0]
    assert notes(theirs.value) == []


DONE = ["-{}", "{}[0]", "{} > 0", "{}.view(-1)", "len({})", "sum([{}])", "torch.tensor({})"]


@pytest.mark.parametrize("done", DONE)
def test_whatever_is_done_with_a_missing_gradient_has_the_note(done, tmp_path):
    def note_of(missing):
        file = tmp_path / "step.py"
        file.write_text(done.format(missing))
        linecache.checkcache(str(file))
        code = compile(file.read_text(), file, "eval")
        with pytest.raises((TypeError, AttributeError, RuntimeError)) as raised, hints():
            eval(code, {"x": leaf(3), "nothing": None, "torch": torch})
        return notes(raised.value)

    assert "grad-is-none" in note_of("x.grad")[0]
    assert note_of("nothing") == []


def test_a_second_v_without_brackets_has_the_note():
    with pytest.raises(TypeError, match="only integer tensors") as ours, hints():
        (leaf(3) ** 2).backward(torch.ones(3), torch.ones(3))
    with pytest.raises(TypeError, match="only integer tensors") as theirs, hints():
        [1, 2, 3][torch.ones(3)]
    assert "tensors-and-gradients" in notes(ours.value)[0]
    assert notes(theirs.value) == []


def test_a_view_of_v_has_the_note_and_another_view_has_none():
    class Flat(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, v):
            return v.view(-1).view(v.shape)

    with pytest.raises(RuntimeError) as ours, hints():
        (Flat.apply(leaf(2, 3)).T * torch.ones(3, 2)).sum().backward()
    with pytest.raises(RuntimeError) as theirs, hints():
        torch.ones(2, 3).T.view(-1)
    assert str(ours.value) == str(theirs.value)
    assert "view-of-v" in notes(ours.value)[0]
    assert notes(theirs.value) == []


@pytest.mark.parametrize("ask", [lambda: [1.0].grad, lambda: torch.nn.Linear(1, 1).grad])
def test_what_is_no_tensor_has_no_gradient_whoever_says_so(ask):
    with pytest.raises(AttributeError) as raised, hints():
        ask()
    assert "no-attribute-requires-grad" in notes(raised.value)[0]


def test_success_changes_nothing():
    x = leaf(3)
    with hints() as block:
        y = (x**2).sum()
        y.backward()
    assert isinstance(block, hints)
    assert torch.equal(x.grad, 2 * x)


def test_nested_blocks_add_one_note():
    with pytest.raises(RuntimeError) as raised, hints(), hints():
        vector_without_gradient(3)
    assert len(notes(raised.value)) == 1


def test_an_error_raised_again_has_one_note():
    @hints()
    def step():
        try:
            with hints():
                vector_without_gradient(3)
        except RuntimeError as error:
            error.add_note("in step 7")
            raise

    with pytest.raises(RuntimeError) as raised:
        step()
    assert len(notes(raised.value)) == 2
    assert notes(raised.value)[1] == "in step 7"


def test_the_cause_of_another_error_has_the_note():
    @hints()
    def step():
        try:
            vector_without_gradient(3)
        except RuntimeError as error:
            raise KeyError("loss") from error

    with pytest.raises(KeyError) as raised:
        step()
    assert notes(raised.value) == []
    assert len(notes(raised.value.__cause__)) == 1


def test_an_error_in_its_handler_keeps_the_note():
    @hints()
    def step(hide):
        try:
            vector_without_gradient(3)
        except RuntimeError as error:
            seen.append(error)
            if hide:
                raise KeyError("loss") from None
            raise KeyError("loss")  # noqa: B904 - its context is what is tested

    seen = []
    for hide in (False, True):
        with pytest.raises(KeyError):
            step(hide)
    assert [len(notes(error)) for error in seen] == [1, 0]


def test_the_note_keeps_nothing_alive():
    class Witness:
        pass

    def fail():
        witness = Witness()
        seen.append(weakref.ref(witness))
        (leaf(3) ** 2).backward()

    seen, enabled = [], gc.isenabled()
    gc.disable()  # so that reference counting alone has to free the frame
    try:
        try:
            with hints():
                fail()
        except RuntimeError as error:
            assert len(notes(error)) == 1
        assert seen[0]() is None
    finally:
        if enabled:
            gc.enable()


def test_members_of_a_group_have_the_note():
    def both():
        errors = [ValueError("mine")]
        try:
            vector_without_gradient(3)
        except RuntimeError as error:
            errors.append(error)
        raise ExceptionGroup("both", errors)

    with pytest.raises(ExceptionGroup) as raised, hints():
        both()
    mine, theirs = raised.value.exceptions
    assert notes(mine) == notes(raised.value) == []
    assert len(notes(theirs)) == 1


def test_a_circle_of_causes_ends():
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    _hints.annotate(first)
    assert notes(first) == notes(second) == []


def test_decorator_keeps_name_and_result():
    @hints()
    def square(x):
        """Square x."""
        return x**2

    assert (square.__name__, square.__doc__) == ("square", "Square x.")
    assert square(3) == 9


def test_decorated_function_adds_the_note_each_time():
    @hints()
    def step():
        vector_without_gradient(3)

    for _ in range(2):
        with pytest.raises(RuntimeError) as raised:
            step()
        assert len(notes(raised.value)) == 1


def test_decorated_generator():
    @hints()
    def steps():
        sent = yield 1
        assert sent == "go on"
        yield 2
        vector_without_gradient(3)

    running = steps()
    assert next(running) == 1
    assert running.send("go on") == 2
    with pytest.raises(RuntimeError) as raised:
        next(running)
    assert len(notes(raised.value)) == 1


def test_generator_that_is_given_up_closes_its_block():
    @hints()
    def steps():
        yield 1

    running = steps()
    next(running)
    assert warnings.formatwarning.__module__ == "pullback._hints"
    running.close()  # and the fixture looks at what is left


def test_decorated_coroutine():
    @hints()
    async def step():
        await asyncio.sleep(0)
        vector_without_gradient(3)

    with pytest.raises(RuntimeError) as raised:
        run_to_its_end(step())
    assert len(notes(raised.value)) == 1


def run_to_its_end(coroutine):
    # A browser of other tests may have an event loop in this thread.
    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, coroutine).result(timeout=60)


def test_decorated_asynchronous_generator():
    @hints()
    async def steps():
        assert (yield 1) == "go on"
        with pytest.raises(asyncio.CancelledError):
            yield 2
        yield 3
        vector_without_gradient(3)

    async def use():
        running = steps()
        assert await anext(running) == 1
        assert await running.asend("go on") == 2
        assert await running.athrow(asyncio.CancelledError()) == 3
        await anext(running)

    with pytest.raises(RuntimeError) as raised:
        run_to_its_end(use())
    assert len(notes(raised.value)) == 1


def test_asynchronous_generator_that_is_given_up_closes_its_block():
    closed = []

    @hints()
    async def steps():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            closed.append(warnings.formatwarning.__module__)

    async def use():
        assert [step async for step in steps()] == [1]
        running = steps()
        await anext(running)
        await running.aclose()

    run_to_its_end(use())  # and the fixture looks at what is left
    assert closed == ["pullback._hints"] * 2


def test_blocks_of_several_threads_end_in_any_order():
    inside, leave, found = threading.Barrier(3), threading.Event(), []

    def work(first):
        try:
            with hints():
                inside.wait(timeout=60)
                if not first:
                    leave.wait(timeout=60)
                vector_without_gradient(3)
        except RuntimeError as error:
            found.append(notes(error))
            leave.set()

    threads = [threading.Thread(target=work, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    inside.wait(timeout=60)
    for thread in threads:
        thread.join(timeout=60)
    assert [len(each) for each in found] == [1, 1]


# -- Where more is said ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "more"),
    [
        (
            "Project-URL: Documentation, https://docs.test/a/\n",
            "https://docs.test/a/errors/b.html",
        ),
        (
            "Project-URL: documentation, https://docs.test\n",
            "https://docs.test/errors/b.html",
        ),
        ("Project-URL: Source, https://docs.test\n", "python -m pullback explain b"),
    ],
)
def test_the_page_is_on_the_site_that_the_package_names(
    metadata, more, tmp_path, monkeypatch
):
    folder = tmp_path / "pullback-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: pullback\n{metadata}\nText.\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path), *sys.path])
    _messages.address.cache_clear()
    try:
        assert _messages.more("b") == more
    finally:
        _messages.address.cache_clear()


# -- A parameter that was changed --------------------------------------------------------


def two_steps(model, optimizer, again):
    """Step between two backward passes through one graph."""
    loss = model(torch.ones(4, 3)).square().sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    again(loss)


class Trainer:
    def __init__(self):
        layers = torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)
        self.critic = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.critic.parameters())

    def run(self):
        two_steps(self.critic, self.optimizer, torch.Tensor.backward)


def words_of(error):
    (note,) = notes(error)
    return " ".join(note.split())


def test_the_parameter_that_an_optimizer_changed_is_named():
    trainer = Trainer()
    with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
        trainer.run()
    said = (
        "`Adam.step()` changed the parameter `2.weight` of `self.critic`, of shape (2, 5),"
    )
    assert said in words_of(raised.value)
    assert "make all backward calls first, then all steps." in words_of(raised.value)
    assert "actor and critic), compute the second loss again" in words_of(raised.value)
    assert "the result of AsStrided" not in words_of(raised.value)


@pytest.mark.parametrize("again", [torch.Tensor.backward, "grad"])
def test_it_is_named_whatever_walks_back(again):
    model = torch.nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = torch.ones(4, 3, requires_grad=True)

    def walk(loss):
        if again == "grad":
            torch.autograd.grad(loss, first)
        else:
            again(loss)

    def step():
        loss = (model(first) ** 2).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        walk(loss)

    with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
        step()
    assert "`SGD.step()` changed the parameter `weight` of `model`" in words_of(
        raised.value
    )


def test_an_update_of_ones_own_is_no_optimizer():
    w = leaf(3)
    y = (w**2).sum()
    y.backward(retain_graph=True)
    with torch.no_grad():
        w -= w.grad
    with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
        y.backward()
    said = "An update under no_grad changed the parameter `w`, of shape (3,), after"
    assert said in words_of(raised.value)


class Wrapped(torch.optim.Optimizer):
    def __init__(self, inside):
        self.inside = inside

    def step(self):
        self.inside.step()


class NotReady(torch.nn.Module):
    def __init__(self):
        self.size = 3  # before super().__init__(), which makes what names parameters


def test_an_optimizer_without_groups_hides_no_error():
    model = torch.nn.Linear(3, 2)
    optimizer = Wrapped(torch.optim.SGD(model.parameters(), lr=0.1))
    loss = (model(leaf(4, 3)) ** 2).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
        loss.backward()
    said = "An update under no_grad changed the parameter `weight` of `model`"
    assert said in words_of(raised.value)


def test_a_module_that_is_not_ready_hides_no_error():
    module, w = NotReady(), leaf(3)
    loss = (w**2).sum()
    with torch.no_grad():
        w += module.size
    with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
        loss.backward()
    assert "find what writes to the tensor" in words_of(raised.value)


def fail(*arguments):
    raise LookupError("of the diagnosis")


def test_a_diagnosis_that_fails_hides_no_error_and_no_warning(monkeypatch):
    monkeypatch.setattr(_recognition, "matches", fail)
    with pytest.raises(RuntimeError, match="for scalar outputs") as raised, hints():
        vector_without_gradient(3)
    assert notes(raised.value) == []
    with hints():
        assert "of mine" in warnings.formatwarning(
            UserWarning("of mine"), UserWarning, "", 1
        )


def test_what_only_the_diagnosis_of_a_parameter_knew_is_all_that_its_failure_loses(
    monkeypatch,
):
    def note():
        w = leaf(3)
        loss = (w**2).sum()
        with torch.no_grad():
            w += 1
        with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
            loss.backward()
        (text,) = notes(raised.value)
        return text

    assert "changed the parameter `w`" in note()
    monkeypatch.setattr(_changed, "changed_parameter", fail)
    assert "find what writes to the tensor of shape (3,)" in " ".join(note().split())


@dataclass(frozen=True)
class FrozenError(RuntimeError):
    said: str


def test_an_error_that_takes_no_notes_leaves_as_it_is():
    text = "grad can be implicitly created only for scalar outputs"
    with pytest.raises(FrozenError) as raised, hints():
        raise FrozenError(text)
    assert _hints.note_for(raised.value)
    assert notes(raised.value) == []


def test_a_parameter_without_a_name_has_its_shape():
    def hidden():
        w = leaf(2, 3)
        return (w**2).sum(), lambda: w.detach().zero_()

    loss, change = hidden()
    change()
    with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
        loss.backward()
    assert "changed a parameter, of shape (2, 3), after" in words_of(raised.value)


def test_what_is_no_parameter_is_told_as_ever():
    y = leaf(3).exp()
    y += 1
    with pytest.raises(RuntimeError, match="modified by an inplace") as raised, hints():
        y.sum().backward()
    said = words_of(raised.value)
    said_of_it = (
        r"find what writes to the tensor of shape \(3,\), the result of Exp(Backward0)?, "
        r"which was at version 0 when it was saved"
    )
    assert re.search(said_of_it, said)  # ExpBackward0 up to 2.10
    assert "changed" not in said.split("fix:")[1].split("- ")[0]


# -- Compiled ---------------------------------------------------------------------------


def inside(x):
    with hints():
        return x**2


@hints()
def decorated(x):
    return x**2


def broken_up(x):
    with hints():
        y = x**2
        torch._dynamo.graph_break()
        return y + 0


@pytest.mark.parametrize(
    ("function", "whole"), [(inside, True), (decorated, True), (broken_up, False)]
)
def test_compiled_code_is_as_without(function, whole):
    torch._dynamo.reset()
    x = leaf(3)
    with hints():
        y = torch.compile(function, backend="aot_eager", fullgraph=whole)(x)
    y.sum().backward()
    assert torch.equal(x.grad, 2 * x)  # and the fixture looks at what is left


def test_an_error_of_compiled_code_has_its_note_outside():
    torch._dynamo.reset()
    compiled = torch.compile(inside, backend="aot_eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="scalar outputs") as raised, hints():
        compiled(leaf(3)).backward()
    assert len(notes(raised.value)) == 1


# -- Warnings ---------------------------------------------------------------------------


def read_non_leaf():
    return (leaf(3) * 2).grad


def shown_while(*blocks):
    """Return what reading .grad of a computed tensor shows while the blocks are open."""
    written = []
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        # pytest records warnings; show them as Python does without it.
        warnings.showwarning = lambda *args: written.append(
            warnings.formatwarning(*args[:4])
        )
        for block in blocks:
            stack.enter_context(block)
        read_non_leaf()
    return "".join(written)


@pytest.mark.usefixtures("warn_always")
def test_a_warning_is_shown_once_with_its_note():
    bare, noted = shown_while(), shown_while(hints(), hints())
    assert noted.startswith(bare.splitlines()[0])
    for part in ("The .grad attribute of a Tensor", "explain non-leaf-grad", "fix:  "):
        assert noted.count(part) == 1, noted
    assert "fix:" not in bare


@pytest.mark.usefixtures("warn_always")
def test_recorded_warnings_are_the_same():
    with warnings.catch_warnings(record=True) as caught, hints():
        warnings.simplefilter("always")
        read_non_leaf()
    (warning,) = caught
    assert warning.category is UserWarning
    assert "why:" not in str(warning.message)


@pytest.mark.usefixtures("warn_always")
def test_a_warning_made_an_error_has_the_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning) as raised, hints():
            read_non_leaf()
    assert len(notes(raised.value)) == 1


@pytest.mark.usefixtures("warn_always")
def test_an_ignored_warning_stays_ignored():
    with warnings.catch_warnings(record=True) as caught, hints():
        warnings.simplefilter("ignore")
        read_non_leaf()
    assert caught == []


@pytest.mark.usefixtures("warn_always")
def test_logged_warnings_have_the_note(caplog):
    with warnings.catch_warnings(), hints():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        try:
            read_non_leaf()
        finally:
            logging.captureWarnings(False)
    (record,) = caplog.records
    assert "explain non-leaf-grad" in record.getMessage()


@pytest.mark.usefixtures("warn_always")
def test_a_formatter_put_around_ours_is_kept(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with hints():
        ours = warnings.formatwarning

        def theirs(*args, **kwargs):
            return "theirs: " + ours(*args, **kwargs)

        warnings.formatwarning = theirs
    assert warnings.formatwarning is theirs
    assert "fix:" not in shown_while()
    noted = shown_while(hints())
    assert noted.startswith("theirs: ")
    assert noted.count("fix:") == 1


# -- The whole program ------------------------------------------------------------------

PROGRAM = """
import threading, warnings
import torch
import pullback

pullback.hints().enable()
pullback.hints.enable()  # a second time does nothing
x = torch.ones(2, 3, requires_grad=True)

def fail():
    (x**2).backward()

{body}
"""


def run(body):
    return run_code(PROGRAM.format(body=body)).stderr


def test_an_error_that_ends_the_program_has_the_note():
    command = [sys.executable, "-c", PROGRAM.format(body="fail()")]
    written = subprocess.run(command, capture_output=True, text=True).stderr
    assert written.count("explain scalar-outputs") == 1
    assert "of shape (2, 3)" in written
    assert written.index("RuntimeError: grad can be") < written.index("why:")


def test_an_error_that_ends_a_thread_has_the_note():
    written = run("thread = threading.Thread(target=fail); thread.start(); thread.join()")
    assert written.count("explain scalar-outputs") == 1


def test_a_warning_in_the_program_has_the_note():
    assert run("(x * 2).grad").count("explain non-leaf-grad") == 1


def test_disabled_again():
    assert "why:" not in run("pullback.hints.disable(); fail()")


def test_disabling_what_is_not_enabled_does_nothing():
    pullback.hints.disable()  # raises nothing, and the fixture looks


def test_enable_and_disable_leave_nothing_behind():
    pullback.hints.enable()
    assert sys.excepthook.__module__ == "pullback._hints"
    pullback.hints.disable()  # and the fixture looks


def test_a_notebook_cell_shows_the_note(capsys):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    private = Config(HistoryManager={"enabled": False})  # not the user's history
    shell = InteractiveShell.instance(config=private)
    before = shell.custom_exceptions
    shell.run_cell("import torch, pullback; pullback.hints.enable()")
    capsys.readouterr()
    shell.run_cell("(torch.ones(2, 3, requires_grad=True) ** 2).backward()")
    written = "".join(capsys.readouterr())
    shell.run_cell("pullback.hints.disable()")
    shell.run_cell("(torch.ones(2, 3, requires_grad=True) ** 2).backward()")
    without = "".join(capsys.readouterr())
    InteractiveShell.clear_instance()
    assert written.count("explain scalar-outputs") == 1
    assert "scalar outputs" in without
    assert "why:" not in without
    assert shell.custom_exceptions == before
