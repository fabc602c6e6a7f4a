"""The whole site, built twice, is the same to the byte (on request: some minutes)."""

import pytest
from executed import EXAMPLES, NOTEBOOKS, name_of
from sites import Site, build_apart, copy_sources, differing


@pytest.mark.whole
def test_the_site_depends_on_its_sources_alone(tmp_path):
    """Neither folder, time, hash seed, locale nor the order of execution shows."""
    sites = [Site(tmp_path / name) for name in ("one", "the_other_one")]
    for site in sites:
        site.folder.mkdir()
        copy_sources(site.folder)
    names = [name_of(page) for page in (*EXAMPLES, *NOTEBOOKS)]
    build_apart(*sites, names, "-j", "2")
    assert set(sites[0].order) == set(sites[1].order) == set(names)
    assert differing(*sites) == []
