# onnxq: `make run` and `make test` do all the set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
BROWSER := $(VENV)/.browser
SITE := $(VENV)/.site
SAMPLES := .venv-samples/.installed

.PHONY: help run test test-deep test-all deep check constructs test-oldest test-newest ends cost bench bench-accuracy bench-calib bench-engine bench-repair bench-surgery bench-peers same-bytes counts page-shots samples golden options wheel sbom docs docs-test reference bench-demonstration fuzz hostile clean

help: ## these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet --editable '.[trt,dev]'
	@touch $@

run: $(STAMP) ## quantize the sample model on its data, and score both
	@mkdir -p out
	$(VENV)/bin/onnxq quantize sample_models/digits/digits.onnx --calib sample_models/digits/calib -o out/digits.int8.onnx
	$(PY) sample_models/digits/score.py sample_models/digits/digits.onnx out/digits.int8.onnx

# The page is tested in a browser where the system has one; its driver is the larger part of the download.
$(BROWSER): $(STAMP)
	@if $(PY) -m tests.page.browser; then $(PY) -m pip install --quiet --editable '.[browser]' \
	  || echo "the driver of browsers is not installed: the tests of the page in one are skipped"; fi
	@touch $@

# SHARD=1/3: the first of three parts that cost about the same
SHARD ?= 1/1
PYTEST := $(PY) -m pytest -n auto --dist worksteal --shard $(SHARD)

# The tests start some hundred processes: what the first of them compiles the others need not.
test test-deep test-all deep: export PYTHONDONTWRITEBYTECODE =
test: $(BROWSER) ## the quick tests (set ONNXQ_CORPUS to a folder of models for those that need one)
	$(PYTEST) --tier quick

test-deep: $(BROWSER) ## the other tests, which tests/deep.txt names (SHARD=1/4: a quarter of them)
	$(PYTEST) --tier deep

test-all: $(BROWSER) ## all tests (SHARD=1/3: a third of them)
	$(PYTEST)

deep: $(BROWSER) ## measure what each test costs, and write tests/deep.txt
	$(PYTEST) --measure

# pip reads its options from the environment too.
test-oldest: ## what users do, and some tests, with the lowest versions that pyproject.toml allows
	@mkdir -p out
	$(PYTHON) tests/lowest.py > out/lowest.txt
	PIP_CONSTRAINT=$(CURDIR)/out/lowest.txt $(MAKE) VENV=.venv-oldest run ends

test-newest: ## the same with the newest versions that there are
	rm -f .venv-newest/.installed
	PIP_UPGRADE=1 PIP_UPGRADE_STRATEGY=eager $(MAKE) VENV=.venv-newest run ends

# All rules, plans, engines; and something of each other package that onnxq builds on.
ENDS := tests/test_rules.py tests/rewrite/test_claims.py tests/rewrite/test_becomes.py
ENDS += tests/quant/test_placement_examples.py tests/quant/test_compiled.py tests/run/test_trt.py
ENDS += tests/data/test_images.py tests/documents/test_schemas.py tests/page/test_hostile.py
ENDS += tests/cli/test_bad_input.py tests/cli/test_data_verb.py
ends: $(STAMP)
	$(PY) -m pytest -n auto --dist worksteal $(ENDS)

check: $(STAMP) ## ruff, and mypy --strict of the package and of the rules
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

constructs: $(STAMP) ## compile the constructs of tests/constructs, before and after sanitize; write their verdicts
	$(PY) -m tests.constructs --raw

cost: $(STAMP) ## CPU seconds and memory of a default run on two nets, beside another checkout (TREE=../before) and Model-Optimizer
	$(PY) -m benchmarks.cost $(TREE)

bench: $(STAMP) ## cost of calibration, memory and rewriting; a table over the models of ONNXQ_CORPUS
	$(PY) -m benchmarks

bench-calib: $(STAMP) ## calibration alone: cost and memory beside other tools', and every method on every net
	$(PY) -m benchmarks.calibration --peers
	$(PY) -m benchmarks.memory
	$(PY) -m benchmarks.loading
	$(PY) -m benchmarks.sampling
	$(PY) -m benchmarks.methods
	$(PY) -m benchmarks.candidates

bench-accuracy: $(STAMP) ## what the noise model predicts of trained nets (of ONNXQ_CORPUS), what goals find, what is measured and said
	$(PY) -m benchmarks.accuracy
	$(PY) -m benchmarks.sensitivity
	$(PY) -m benchmarks.said

bench-repair: $(STAMP) $(SAMPLES) ## what repair gains on nets with data, by step, beside other tools, and what it costs
	OMP_NUM_THREADS=1 .venv-samples/bin/python -m benchmarks.repair.encoders out/repair/encoders
	$(PY) -m benchmarks.repair

bench-engine: $(STAMP) ## what engines move, beside plain float16 and other tools' (of a folder of nets: ONNXQ_NETS)
	$(PY) -m benchmarks.engine

bench-surgery: $(STAMP) ## the constructs, repaired by onnxq and by polygraphy, onnxslim and onnxsim (in an environment of their own)
	test -x .venv-surgery/bin/python || $(PYTHON) -m venv .venv-surgery
	.venv-surgery/bin/pip install --quiet polygraphy onnx-graphsurgeon onnxslim onnxsim onnxruntime
	$(PY) -m benchmarks.surgery

bench-demonstration: $(STAMP) ## one CNN quantized by seven tools, which are installed (14 GB): what TensorRT-RTX takes, what onnxq makes of it
	$(PY) -m benchmarks.demonstration --environments .venv-demonstration --install

fuzz: $(STAMP) ## mutated models, documents and command lines, for SECONDS; its seed is printed (SEED=7: that one)
	$(PY) -m tests.hostile.fuzz --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED))

hostile: $(STAMP) ## models, data and command lines that nobody means, each with how it has to end
	$(PY) -m tests.hostile

same-bytes: $(STAMP) ## hashes of what six models become, in four minutes (BEFORE=FILE: what differs from those)
	$(PY) -m benchmarks.same_bytes --quick $(if $(BEFORE),--against $(BEFORE))

counts: $(STAMP) ## how large the package is, and how much of it is in more than one shape
	$(PY) -m benchmarks.counts

page-shots: $(BROWSER) ## pictures of the page and the screen, and times of the page, in the system's Chromium
	$(PY) -m benchmarks.page_shots

bench-peers: ## install the tools that the benchmarks compare with, in environments of their own
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet 'nvidia-modelopt[onnx]==0.47.*' sympy 'nncf==3.4.*'
	$(PYTHON) -m venv .venv-ppq
	.venv-ppq/bin/pip install --quiet torch==2.13.0 'esp-ppq==1.3.*'
	$(PYTHON) -m venv .venv-aimet
	.venv-aimet/bin/pip install --quiet 'aimet-onnx==2.42.*'

# PyTorch's CPU build, in an environment of its own
$(SAMPLES):
	$(PYTHON) -m venv .venv-samples
	.venv-samples/bin/pip install --quiet torch==2.13.0 onnx onnxscript onnxruntime scikit-learn numpy Pillow
	@touch $@

samples: $(SAMPLES) ## make the sample models again (installs PyTorch's CPU build)
	for script in sample_models/*/train.py sample_models/*/export.py; do .venv-samples/bin/python $$script || exit 1; done

$(SITE): $(STAMP)
	$(PY) -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(SITE) ## build the site into out/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "open out/site/index.html"

docs-test: $(STAMP) ## run every block of README and site, then list those that no test runs, with why
	$(PYTEST) tests/documentation
	$(PY) -m tests.documentation.blocks

REFERENCE := tests/documentation/test_reference.py tests/documents/test_schemas.py tests/rule/test_page.py
REFERENCE += tests/advice/test_symptoms.py tests/cli/test_help_verb.py tests/test_modules.py
reference: $(STAMP) ## write docs/reference again, which is made of the code; the number of a schema stays what it is
	ONNXQ_GOLDEN=1 $(PY) -m pytest -n 0 $(REFERENCE)

golden: $(STAMP) ## write the command-line transcripts of tests/cli again
	ONNXQ_GOLDEN=1 $(PY) -m pytest tests/cli/test_transcripts.py

options: $(STAMP) ## write the stubs that are made of verbs, options and names (onnxq/**/*.pyi) again
	ONNXQ_GOLDEN=1 $(PY) -m pytest -n 0 tests/test_call_options.py

wheel: $(STAMP) ## build wheel and sdist, twice, and try the wheel on every Python of PATH, with NVIDIA's compiler
	$(PY) -m release.wheel --trt

# Of an environment that has the versions of constraints.txt: the same list on every machine of one kind.
sbom: wheel ## list what an installation holds, with licences, as CycloneDX: out/onnxq.cdx.json
	rm -rf .venv-sbom
	$(PYTHON) -m venv .venv-sbom/tool
	.venv-sbom/tool/bin/pip install --quiet 'cyclonedx-bom==7.*'
	$(PYTHON) -m venv .venv-sbom/onnxq
	.venv-sbom/onnxq/bin/pip install --quiet -c constraints.txt "$$(ls out/dist/onnxq-*.whl)[trt]"
	.venv-sbom/onnxq/bin/pip uninstall --quiet --yes pip setuptools
	.venv-sbom/tool/bin/cyclonedx-py environment --output-reproducible --of JSON -o out/onnxq.cdx.json .venv-sbom/onnxq/bin/python
	$(PY) -m release.licences out/onnxq.cdx.json

clean: ## remove the environments and what `make run` wrote
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-samples .venv-peers .venv-ppq .venv-aimet .venv-surgery .venv-sbom .venv-demonstration out
