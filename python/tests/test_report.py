"""The page of a run."""

import pytest

import ut_decoding as ut


def test_a_page_is_written_and_what_stands_out_is_returned(busy, synthetic, tmp_path):
    page = tmp_path / "run.html"
    found = ut.report(busy, synthetic, page, compare=[busy])
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert "700" in str(found)


def test_a_run_that_cannot_be_read_is_an_error_and_leaves_no_page(synthetic, tmp_path):
    with pytest.raises(ut.Error, match="no-such.mdf"):
        ut.report("no-such.mdf", synthetic, tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []
