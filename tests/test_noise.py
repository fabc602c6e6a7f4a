"""No record prints what rounding left; tests/test_messages.py asks the messages."""

import pytest
from executed import ROOT
from noise import rounding_noise

RECORDS = sorted((ROOT / "tests" / "records").glob("*.txt"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_no_record_has_noise(record):
    lines = record.read_text(encoding="utf-8").splitlines()
    printed = [line for line in lines if not line.startswith(">>>")]
    assert rounding_noise("\n".join(printed)) == []


@pytest.mark.parametrize(
    ("output", "noise"),
    [
        ("tensor(0.0079) tensor(8.8818e-16, grad_fn=<SumBackward0>)", ["8.8818e-16"]),
        ("loss 1.3e-10", ["1.3e-10"]),
        ("[-2.2204e-14,  1.0000e+00, 12e-11]", ["2.2204e-14", "12e-11"]),
        ("off by 0.0000000012", ["0.0000000012"]),
        ("1e-12 1.0e-08 2.000e-10 rtol=1e-9 0.0 0.000e+00", []),
        ("1.0004e-08 3.8e-06 0.0001 1.5 12 1.2e+10", []),
        ("0x1.3e-10 1.2.3e-10 a1.3e-10 version 2.13.0", []),
    ],
)
def test_noise_is_told_from_what_is_meant(output, noise):
    assert rounding_noise(output) == noise
