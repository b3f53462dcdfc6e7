"""`onnxq.toml`: what it says, which layers it means, and how its mistakes are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxq.base.errors import UserError
from onnxq.data.image_options import PRESETS
from onnxq.options import settings
from onnxq.options.config import Config, LayerRule, find_config, load_config, overrides
from onnxq.options.settings import Calibration, DataPlace, Feeding, ImageOptions, Repairs
from onnxq.quant.thresholds import NAMES

FULL = """\
target = "tensorrt-8.6"

[calibration]
data = "images"
samples = 256
seed = 7
method = "percentile"
percentile = 99.9
constant = 0.1
exact = true
preset = "imagenet"
skip_bad = false

[[layer]]
match = "/head/*"
op = ["Conv", "Gemm"]
format = "float"
because = "boxes lose precision"

[[layer]]
op = "Softmax"
amax = 1

[[layer]]
match = ["/a", "/b"]
method = "entropy"

[[layer]]
match = "/c"
percentile = 100

[[layer]]
match = "/d"
method = "average"
constant = 0.5
"""
NODES = [("/head/Conv", "Conv"), ("/head/Relu", "Relu"), ("/body/Conv", "Conv"), ("/body/Softmax", "Softmax")]


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "onnxq.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert type(caught.value) is UserError
    said = str(caught.value)
    assert repr(str(path)) in said
    assert caught.value.hint
    return said.split(repr(str(path)), 1)[1].removeprefix(", "), caught.value.hint


class TestFile:
    def test_all_keys(self, tmp_path: Path) -> None:
        path = write(tmp_path, FULL)
        found = load_config(path)
        assert found == Config(
            path=path,
            options={
                Repairs: {"target": "tensorrt-8.6"},
                DataPlace: {"path": tmp_path / "images"},
                Calibration: {
                    "samples": 256,
                    "seed": 7,
                    "method": "percentile",
                    "percentile": 99.9,
                    "constant": 0.1,
                    "exact": True,
                },
                ImageOptions: {"preset": "imagenet"},
                Feeding: {"skip_bad": False},
            },
            layers=(
                LayerRule(
                    match=("/head/*",),
                    op=("Conv", "Gemm"),
                    format="float",
                    because="boxes lose precision",
                    index=1,
                    path=path,
                ),
                LayerRule(op=("Softmax",), amax=1.0, index=2, path=path),
                LayerRule(match=("/a", "/b"), method="entropy", index=3, path=path),
                LayerRule(match=("/c",), method="percentile", percentile=100.0, index=4, path=path),
                LayerRule(match=("/d",), method="average", constant=0.5, index=5, path=path),
            ),
        )
        assert isinstance(found.layers[1].amax, float)

    @pytest.mark.parametrize("text", ["", "# nothing\n", "\ufeff", "[calibration]\n"])
    def test_nothing_said(self, tmp_path: Path, text: str) -> None:
        path = write(tmp_path, text)
        assert load_config(path) == Config(path)

    def test_line_ends_of_windows(self, tmp_path: Path) -> None:
        path = write(tmp_path, FULL)
        assert load_config(path) == load_config(write(tmp_path, "\ufeff" + FULL.replace("\n", "\r\n")))

    def test_data_elsewhere(self, tmp_path: Path) -> None:
        path = write(tmp_path, '[calibration]\ndata = "/data/images"\n')
        assert load_config(path).of(DataPlace)["path"] == Path("/data/images")

    def test_find(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert find_config(None) is None
        write(tmp_path, '[calibration]\ndata = "images"\n')
        (tmp_path / "other.toml").write_text("target = 'tensorrt-10'\n")
        assert find_config(None) == Config(Path("onnxq.toml"), {DataPlace: {"path": Path("images")}})
        assert find_config(Path("other.toml")) == Config(
            Path("other.toml"), {Repairs: {"target": "tensorrt-10"}}
        )
        with pytest.raises(UserError, match=r"cannot read 'missing\.toml': No such file"):
            find_config(Path("missing.toml"))

    def test_names_are_those_of_the_parts_that_use_them(self) -> None:
        assert set(settings.PRESETS) == set(PRESETS)
        assert set(settings.LAYER_METHODS) == set(NAMES)


MISTAKES = {
    "top-key": ("\ntarge = 1", 2, "there is no key 'targe'", "'target'"),
    "target": ('target = "tensorrt-8"', 1, "there is no target 'tensorrt-8'", "'tensorrt-8.6'"),
    "key": ("[calibration]\n\npercentil = 99", 3, "there is no key 'percentil'", "'percentile'"),
    "key-is-a-table": ("[calibrate]\nsamples = 3", 1, "there is no key 'calibrate'", "'calibration'"),
    "layers": ('[[layers]]\nmatch = "a"', 1, "there is no key 'layers'", "'layer'"),
    "single-brackets": ('[layer]\nmatch = "a"', 1, "layer is not a list of tables", "[[layer]]"),
    "list": ("layer = [1]", 1, "layer is not a list of tables", "[[layer]]"),
    "no-table": ("calibration = 3", 1, "calibration is 3, not a table", "[calibration]"),
    "method": ('[calibration]\nmethod = "percentil"', 2, "no method 'percentil'", "'percentile'"),
    "method-type": ("[calibration]\nmethod = 3", 2, "method is 3, not a string", "quotes"),
    "method-list": ("[calibration]\nmethod = ['mse']", 2, "method is ['mse'], not a string", "quotes"),
    "preset": ('[calibration]\npreset = "image"', 2, "there is no preset 'image'", "'imagenet'"),
    "samples": ("[calibration]\nsamples = 0", 2, "samples is 0, not a whole number from 1", "from 1"),
    "samples-bool": ("[calibration]\nsamples = true", 2, "samples is True, not a whole", "from 1"),
    "samples-float": ("[calibration]\nsamples = 64.0", 2, "samples is 64.0, not a whole", "from 1"),
    "seed": ("[calibration]\nseed = -1", 2, "seed is -1, not a whole number from 0", "from 0"),
    "percentile": ("[calibration]\npercentile = 100.1", 2, "percentile is 100.1", "above 0, at most 100"),
    "percentile-0": ("[calibration]\npercentile = 0", 2, "percentile is 0", "above 0, at most 100"),
    "percentile-nan": ("[calibration]\npercentile = nan", 2, "percentile is nan", "at most 100"),
    "percentile-bool": ("[calibration]\npercentile = true", 2, "percentile is True", "at most 100"),
    "constant": ("[calibration]\nconstant = 1.5", 2, "constant is 1.5", "above 0, at most 1"),
    "exact": ('[calibration]\nexact = "yes"', 2, "exact is 'yes', not true or false", "quotes"),
    "skip": ("[calibration]\nskip_bad = 1", 2, "skip_bad is 1, not true or false", "quotes"),
    "data": ('[calibration]\ndata = ""', 2, "data is '', not a string", "quotes"),
    "amax": ('[[layer]]\nmatch = "a"\namax = 0', 3, "amax is 0, not a number above 0", "above 0"),
    "amax-inf": ('[[layer]]\nmatch = "a"\namax = inf', 3, "amax is inf", "above 0"),
    "amax-huge": (f'[[layer]]\nmatch = "a"\namax = 1{"0" * 400}', 3, "amax is 1000", "above 0"),
    "auto": ('[[layer]]\nmethod = "auto"', 2, "no method for single layers 'auto'", "minmax"),
    "format": ('[[layer]]\nformat = "int8"', 2, "there is no format 'int8'", "'float'"),
    "match": ("[[layer]]\nmatch = []", 2, "match is [], not a string or a list of strings", '["...'),
    "match-mixed": ('[[layer]]\nmatch = ["a", 1]', 2, "match is ['a', 1], not a string or", '["...'),
    "because": ("[[layer]]\nbecause = 1", 2, "because is 1, not a string", "quotes"),
    "nothing-set": ('[[layer]]\nmatch="a"\namax=1\n\n[[layer]]\nmatch = "a"\nbecause = "b"',
                    5, "[[layer]] 2 sets nothing", "format"),
    "which": ("[[layer]]\namax = 1", 1, "[[layer]] 1 does not say which", "match"),
    "two": ('[[layer]]\nop = "a"\nformat = "float"\namax = 1', 1, "sets format and amax", "keep one"),
    "amax-too": ('[[layer]]\nop = "a"\nmethod = "mse"\namax = 1', 1, "sets amax and method", "keep one"),
    "parameter": ('[[layer]]\nop = "a"\nmethod = "mse"\npercentile = 99',
                  4, "percentile is a parameter of method percentile, not of mse", "leave one"),
    "parameters": ('[[layer]]\nop = "a"\nconstant = 0.1\npercentile = 99',
                   3, "constant is a parameter of method average, not of percentile", "leave one"),
    "float-and-parameter": ('[[layer]]\nop = "a"\nformat = "float"\nconstant = 0.1',
                            1, "sets format and constant, which exclude", "keep one"),
    "several-lines": ('[[layer]]\nbecause = """\n[[layer]]\nmatch = 3\n"""\n# match = 3\nmatch = [\n  1,\n]',
                      7, "match is [1]", '["...'),
    "regex": ('[[layer]]\nop = "Conv("\namax = 1', 2, "op 'Conv(' is no regular expression: ", "Conv"),
    "of": ('[[layer]]\nop = "a"\nof = "weight"\namax = 1', 3, "no kind of operand 'weight'", "'weights'"),
    "output": ('[[layer]]\nop = "a"\noutput = -1\namax = 1', 3, "output is -1, not a whole", "from 0"),
    "of-and-output": ('[[layer]]\nop = "a"\nof = "weights"\noutput = 0\namax = 1',
                      3, "of an output and of weights", "keep one"),
    "format-of": ('[[layer]]\nop = "a"\nof = "weights"\nformat = "float"',
                  3, "format is of the node", "keep"),
    "entropy-of": ('[[layer]]\nop = "a"\nof = "weights"\nmethod = "entropy"',
                   4, "method entropy is for activations", "minmax, percentile, mse"),
    "quoted-key": ('# "seeds" = 3\n[calibration]\n"seed" = 1\n"seeds" = 3', 4, "no key 'seeds'", "'seed'"),
    "inline": ("calibration = {seed = 1, seeds = 2}", 1, "no key 'seeds'", "'seed'"),
    "dotted": ("calibration.seed = 1\ncalibration.seeds = 2", 2, "no key 'seeds'", "'seed'"),
    "windows": ("\r\n[calibration]\r\nseeds = 2\r\n", 3, "no key 'seeds'", "'seed'"),
}  # fmt: skip


class TestMistakes:
    @pytest.mark.parametrize("case", MISTAKES)
    def test_place_reason_and_hint(self, tmp_path: Path, case: str) -> None:
        text, line, why, hint = MISTAKES[case]
        said, hinted = refused(write(tmp_path, text))
        assert said.startswith(f"line {line}: ")
        assert why in said
        assert hint in hinted

    def test_not_toml(self, tmp_path: Path) -> None:
        assert "line 2" in refused(write(tmp_path, "target = 'tensorrt-10'\nseed 3\n"))[0]
        assert "is not TOML" in refused(write(tmp_path, b"target = '\xff'"))[0]
        assert "is not TOML" in refused(write(tmp_path, "seed = 1\nseed = 2\n"))[0]

    def test_a_long_file(self, tmp_path: Path) -> None:
        entries = "".join(f'[[layer]]\nmatch = "/layer.{i}/*"\nmethod = "mse"\n\n' for i in range(300))
        said, _ = refused(write(tmp_path, entries + '[[layer]]\nmatch = "a"\nmethod = "kl"\n'))
        assert said.startswith("line 1203: ")


class TestLayers:
    @pytest.mark.parametrize(
        ("rule", "names"),
        [
            (LayerRule(match=("/head/*",)), ["/head/Conv", "/head/Relu"]),
            (LayerRule(match=("/HEAD/*",)), []),
            (LayerRule(match=("head",)), []),
            (LayerRule(match=("/head/Relu", "/body/*")), ["/head/Relu", "/body/Conv", "/body/Softmax"]),
            (LayerRule(op=("Conv",)), ["/head/Conv", "/body/Conv"]),
            (LayerRule(op=("Con",)), []),
            (LayerRule(op=("Con.*|Relu",)), ["/head/Conv", "/head/Relu", "/body/Conv"]),
            (LayerRule(op=("Relu", "Softmax")), ["/head/Relu", "/body/Softmax"]),
            (LayerRule(match=("/body/*",), op=("Conv", "Relu")), ["/body/Conv"]),
        ],
    )
    def test_matches(self, rule: LayerRule, names: list[str]) -> None:
        assert [name for name, op in NODES if rule.matches(name, op)] == names

    def test_the_first_match_wins(self) -> None:
        first = LayerRule(match=("/head/Conv",), format="float", index=1)
        second = LayerRule(op=("Conv",), method="mse", index=2)
        third = LayerRule(match=("/head/*",), amax=1.0, index=3)
        found = overrides((first, second, third), iter(NODES))
        assert found == {"/head/Conv": first, "/head/Relu": third, "/body/Conv": second}
        assert overrides((third, second), NODES)["/head/Conv"] == third
        assert overrides((), NODES) == {}

    @pytest.mark.parametrize(
        ("rule", "says", "hint"),
        [
            (LayerRule(match=("/hed/Conv",)), "match = '/hed/Conv'", "'/head/Conv'"),
            (LayerRule(match=("/head/*", "/bdy/Conv")), "match = '/bdy/Conv'", "'/body/Conv'"),
            (LayerRule(op=("softmax",)), "op = 'softmax'", "'Softmax'"),
            (LayerRule(op=("Zzz",)), "op = 'Zzz'", "'Conv', 'Relu', 'Softmax'"),
            (LayerRule(match=("zzz",)), "match = 'zzz'", "onnxq inspect"),
            (LayerRule(match=("/head/*",), op=("Gemm",)), "match = '/head/*', op = 'Gemm'", "Conv, Relu"),
            (LayerRule(match=("/hed/*", "/head/*"), op=("Conv",)), "match = '/hed/*', op = 'Conv'", "/head"),
        ],
    )
    def test_a_rule_that_matches_nothing(self, rule: LayerRule, says: str, hint: str) -> None:
        with pytest.raises(UserError) as caught:
            overrides((LayerRule(op=("Conv",)), rule), NODES)
        assert str(caught.value) == f"'onnxq.toml': [[layer]] 1 ({says}) matches no node of the model"
        assert hint in caught.value.hint

    def test_a_rule_that_is_never_followed(self) -> None:
        head, conv = LayerRule(match=("/head/*",), index=1), LayerRule(op=("Conv",), index=2)
        overrides((head, conv), NODES)
        for match, entries in (("/head/Relu", "1"), ("*/Conv", "1 and 2")):
            with pytest.raises(UserError) as caught:
                overrides((head, conv, LayerRule(match=(match,), index=3)), NODES)
            assert str(caught.value) == (
                f"'onnxq.toml': [[layer]] 3 is never followed: [[layer]] {entries} matches all that it "
                "does, and the first one wins"
            )
            assert "narrower" in caught.value.hint

    @pytest.mark.parametrize("rule", [LayerRule(match=("a",)), LayerRule(op=("Conv",))])
    def test_a_model_without_nodes(self, rule: LayerRule) -> None:
        with pytest.raises(UserError, match="matches no node"):
            overrides((rule,), [])
