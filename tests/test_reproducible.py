"""The whole site, built twice, is the same to the byte (on request: some minutes)."""

import pytest
from executed import EXAMPLES, NOTEBOOKS, ROOT
from sites import Site, build_apart, copy_sources, differing


@pytest.mark.whole
def test_the_site_depends_on_its_sources_alone(tmp_path):
    """Neither folder, time, hash seed, locale nor the order of execution shows."""
    sites = [Site(tmp_path / name) for name in ("one", "the_other_one")]
    for site in sites:
        site.folder.mkdir()
        copy_sources(site.folder)
    pages = [page.relative_to(ROOT / "examples").with_suffix("") for page in EXAMPLES]
    names = [f"auto_examples/{page.as_posix()}" for page in pages]
    pages = [page.relative_to(ROOT / "docs").with_suffix("") for page in NOTEBOOKS]
    names += [page.as_posix() for page in pages]
    build_apart(*sites, names, "-j", "2")
    assert set(sites[0].order) == set(sites[1].order) == set(names)
    assert differing(*sites) == []
