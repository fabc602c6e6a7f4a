"""How long a live picture takes to answer on a slow device, and what it adds to a page.

Opens the page that ``pullback.live(f, x).save(path)`` writes in Chromium, throttled four
times, and prints milliseconds from the first event at a slider of a page that has been
drawn until the next frame can be drawn with the new numbers, and what script and program
weigh, compressed. Run ``python benchmarks/live.py`` on a calm machine; on any other, what
the page itself computes, its script, style and layout, is told by the time of its thread.
"""

import shutil
import statistics
import tempfile
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright

import pullback
from pullback._live import script
from pullback._live_program import weight

VISITS = 5
SLOWER = 4
WORK = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
MOVE = """() => new Promise(done => {
  const slider = document.querySelector("input[type=range]");
  requestIdleCallback(() => {
    const start = performance.now();
    slider.stepDown();
    slider.dispatchEvent(new Event("input"));
    const frame = new MessageChannel();
    frame.port1.onmessage = () => done(performance.now() - start);
    requestAnimationFrame(() => frame.port2.postMessage(0));  // read once it is drawn
  });
})"""


def functions():
    """Return functions and their inputs, from small to as large as a page can show.

    Each with whether its graph is shown, too.
    """
    torch.manual_seed(0)  # the same weights in each run
    mlp = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def attention(x: torch.Tensor) -> torch.Tensor:
        return (x @ x.T).softmax(-1) @ x

    def dense(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x[:, None] * x).sum(1) * x.exp()

    return {
        "sum, squares": (
            lambda x: torch.stack([x.sum(), (x**2).sum()]),
            torch.ones(3),
            False,
        ),
        "softmax": (lambda x: x.softmax(0), torch.ones(3), False),
        "network": (mlp, torch.ones(3), False),
        "attention": (attention, torch.eye(3, 4), False),
        "12 by 12": (dense, torch.ones(12), False),
        "network, graph": (mlp, torch.ones(3), True),
        "attention, graph": (attention, torch.eye(3, 4), True),
        "12 by 12, graph": (dense, torch.ones(12), True),
    }


def visit(browser, path):
    """Return the milliseconds of the first move, of its work, and of the next move."""
    page = browser.new_page()
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(path.as_uri())
    page.wait_for_timeout(1000)  # it is drawn by then
    before = work(session)
    first = page.evaluate(MOVE)
    times = first, work(session) - before, page.evaluate(MOVE)
    page.close()
    return times


def work(session):
    """Return the milliseconds that the thread of a page has worked."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * sum(m["value"] for m in metrics if m["name"] in WORK)


def main():
    """Print a line for each function."""
    print(f"script           {weight(script())} bytes")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (f, x, graph) in functions().items():
            path = Path(folder, "f.html")
            live = pullback.live(f, x, graph=graph)
            live.save(path)
            visits = [visit(browser, path) for _ in range(VISITS)]
            first, own, later = map(statistics.median, zip(*visits, strict=True))
            print(
                f"{name:16} {weight(live.program)} bytes, first move {first:.0f} ms, "
                f"{own:.0f} ms of work, "
                f"later {later:.0f} ms, {SLOWER} times slower"
            )


if __name__ == "__main__":
    main()
