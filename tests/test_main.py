"""The command runs a script as it is; the plugin of pytest and IPython watch, too."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from forks import run_module
from watched import TRAP, hooks_of_torch

import pullback
from pullback._messages import messages


def command(*arguments, text="", folder="."):
    ran = run_module("pullback", *map(str, arguments), folder=folder, text=text, quiet=True)
    return ran.returncode, ran.stdout, ran.stderr


def script(tmp_path, code):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(code))
    return path


RIGHT = "x = torch.ones(2, requires_grad=True); (x * 2).sum().backward()"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (RIGHT, 0, "operations, 1 backward pass; nothing was found"),
        (TRAP, 3, "train.py:3: An infinity first"),
        (f"{TRAP}\nraise SystemExit(7)", 7, "train.py:3: An infinity first"),
        (f"{RIGHT}\n1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_a_script_runs_as_it_is(tmp_path, body, status, says):
    path = script(tmp_path, f"import sys, torch; print(sys.argv[1:], __name__)\n{body}")
    returned, out, err = command(path.name, "--lr", "1", folder=tmp_path)
    assert (returned, out) == (status, "['--lr', '1'] __main__\n")
    assert says in " ".join(err.split())
    assert "runpy" not in err
    assert (err.count("\n") == 1) == (body == RIGHT)
    assert ("nothing was found" in err) == (RIGHT in body)


STOPPED = """
    import os, signal, torch
    def tell(number):
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), number)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        os.kill(os.getpid(), number)
    {body}
    tell(signal.{name})
    print("goes on")
"""


@pytest.mark.parametrize(
    ("name", "status", "says"), [("SIGTERM", 143, "-15"), ("SIGINT", 130, "")]
)
def test_a_script_that_is_stopped_tells_what_was_found(tmp_path, name, status, says):
    path = script(tmp_path, STOPPED.format(name=name, body=RIGHT))
    returned, out, err = command(path.name, folder=tmp_path)
    assert returned == status
    assert says in out
    assert "goes on" not in out
    assert "1 backward pass; nothing was found before it was stopped" in err
    lines = f"\n{textwrap.indent(TRAP, '    ')}\n"
    path = script(tmp_path, STOPPED.format(name=name, body=lines))
    returned, _, err = command(path.name, folder=tmp_path)
    assert returned == status
    assert "An infinity first" in err


def test_a_handler_that_the_script_has_set_counts(tmp_path):
    path = script(
        tmp_path,
        f"""
        import os, signal, torch
        signal.signal(signal.SIGTERM, lambda number, frame: print("mine"))
        os.kill(os.getpid(), signal.SIGTERM)
        {RIGHT}
        """,
    )
    returned, out, err = command(path.name, folder=tmp_path)
    assert (returned, out) == (0, "mine\n")
    assert err.endswith("nothing was found\n")


def test_an_error_is_explained_below_a_traceback_of_the_script_alone(tmp_path):
    path = script(tmp_path, f"import torch\n{RIGHT}\ntorch.ones(2) @ torch.ones(3)")
    returned, _, err = command(path.name, folder=tmp_path)
    assert returned == 1
    assert "_watch" not in err
    assert "_ops.py" not in err
    assert "nothing was found beside that error" in err
    path = script(tmp_path, "import torch\ntorch.ones(3, requires_grad=True).backward()")
    assert (
        "\nfix:  Reduce the output, of shape (3,)" in command(path.name, folder=tmp_path)[2]
    )


def test_a_warning_is_explained(tmp_path):
    path = script(
        tmp_path, "import torch\n((torch.ones(2, requires_grad=True) * 2).grad)\n1 / 0"
    )
    ran = run_module("pullback", path.name, folder=tmp_path)
    assert "more: python -m pullback explain non-leaf-grad" in ran.stderr
    assert ran.stderr.count("more:") == 1


def test_a_module_runs_too(tmp_path):
    script(tmp_path, f"import torch\n{TRAP}")
    assert command("-m", "train", folder=tmp_path)[0] == 3
    assert command("--without", "not-finite", "-m", "train", folder=tmp_path)[0] == 0


def test_a_safe_path_stays_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "helper.py").write_text("")
    source = Path(pullback.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'first'}{os.pathsep}{source}")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    path = script(tmp_path, f"import helper, sys, torch; print(sys.path[0])\n{RIGHT}")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pullback", path.name],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (ran.returncode, ran.stdout) == (0, f"{tmp_path / 'first'}\n"), ran.stderr


FACTOR = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, v):
        return v * 3
Double.apply(torch.ones(2, requires_grad=True)).sum().backward()
"""


def test_functions_that_were_not_compared_are_named_and_compared_when_asked_for(tmp_path):
    script(tmp_path, f"import torch{FACTOR}")
    status, _, err = command("train.py", folder=tmp_path)
    assert (status, err.count("unchecked: the backward of Double, train.py:6")) == (0, 1)
    assert "--check-functions compares" in err
    status, _, err = command("--check-functions", "train.py", folder=tmp_path)
    assert status == 3
    assert "train.py:8: backward of Double gives a wrong gradient" in " ".join(err.split())
    assert "1.5 times" in " ".join(err.split())
    assert "unchecked" not in err


def test_help_is_a_screen_of_commands_that_run(tmp_path):
    for asked in ("--help", "-h"):
        returned, out, _ = command(asked)
        assert returned == 0
        lines = out.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 88
    assert command()[0] == 2
    assert command()[2] == out
    script(tmp_path, RIGHT.join(["import torch; ", ""]))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("")
    given = [line for line in lines if line.startswith("    python")]
    assert len(given) == 6
    for line in given:
        if line.endswith(("--epochs 1", "package.train")):  # these take torch
            assert command(*line.split()[3:], folder=tmp_path)[0] == 0
            continue
        line = line.replace("python ", f"{sys.executable} -W ignore ")
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True)
        assert done.returncode == ("train.py 2>&1" in line), done
    assert "backward" in (tmp_path / "AGENTS.md").read_text()


def test_the_entry_of_a_name_leaves_no_gap(capsys):
    from pullback.__main__ import main

    for entry in messages():
        told = {*re.findall(r"\{(\w+)\}", entry.fix)} - {*entry.shapes}
        assert main(["explain", entry.anchor]) == 0
        out = capsys.readouterr().out
        assert all(f"<{name}>" in out for name in told), entry.anchor
        assert not any(f"{{{name}}}" in out for name in told), entry.anchor
        assert ("what your own message says there" in out) == bool(told), entry.anchor


def test_explain_says_what_a_message_means_without_torch():
    message = "grad can be implicitly created only for scalar outputs"
    traceback = (
        f"Traceback (most recent call last):\n  y.backward()\nRuntimeError: {message}"
    )
    for arguments, text in ((["explain", message], ""), (["explain"], traceback)):
        returned, out, _ = command(*arguments, text=text)
        assert returned == 0
        found = re.search(r"fix: .*more: python -m pullback (.*)$", out, re.M | re.S)
        returned, entry, _ = command(*found[1].splitlines()[0].split())
        assert returned == 0
        assert "losses.mean().backward()" in entry
        assert "# done right\nimport torch" in entry
    assert command("explain", "all is well")[0] == 1
    assert command("explain", "no-such-entry")[0] == 1
    code = (
        "import sys; from pullback.__main__ import main; "
        f"main(['explain', {message!r}]); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


# --- pytest and IPython ---------------------------------------------------------------


def test_the_plugin_of_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(
        f"import pytest, torch\ndef trap():\n{textwrap.indent(TRAP, '    ')}\n"
        "def test_plain(): trap()\n"
        "@pytest.mark.pullback_watch\ndef test_marked(): trap()\n"
        "@pytest.mark.pullback_watch(without=['not-finite'])\ndef test_without(): trap()\n"
        "@pytest.mark.pullback_watch\ndef test_own(): assert False\n"
    )
    given = ("-q", "-p", "pullback._pytest", "-c", "/dev/null", "-p", "no:cacheprovider")

    def ran(*more):
        return run_module(
            *("pytest", *given, "--rootdir", str(tmp_path), *more, "test_it.py"),
            folder=tmp_path,
            environment={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # not twice
        ).stdout

    out = ran()
    assert "2 failed, 2 passed" in out
    assert "test_it.py:4: An infinity first appeared" in " ".join(out.split())
    assert "3 failed, 1 passed" in ran("--pullback-watch")


EDIT = "y = torch.ones(2, requires_grad=True).exp()\ny += 1\ny.sum().backward()"


def test_the_extension_of_ipython(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_cell("%load_ext pullback\nimport torch")
    shell.run_cell(TRAP)
    assert "An infinity first appeared" in capsys.readouterr().out
    shell.run_cell(f"%%capture\n{RIGHT}")
    assert hooks_of_torch()[-1] == 0
    shell.run_cell(f"%%capture\n{EDIT}")
    assert "rule:   in-place" in capsys.readouterr().out
    shell.run_cell("y = torch.ones(2, requires_grad=True).exp()")
    shell.run_cell("y += 1")
    shell.run_cell("%%capture\ny.sum().backward()")  # which finds the line two cells before
    shown = " ".join(capsys.readouterr().out.split())
    assert "add_ edited a tensor of shape [2] in place after Exp had saved it" in shown
    assert "y += 1" in shown
    shell.run_cell("%%capture\n1")
    shell.run_cell(f"get_ipython().run_cell('1')\n{TRAP}")
    assert capsys.readouterr().out.count("An infinity first appeared") == 1
    shell.run_cell("%unload_ext pullback")
    shell.run_cell(TRAP)
    assert "infinity" not in capsys.readouterr().out
    assert hooks_of_torch()[-1] == 0
