#!/usr/bin/env bash
# The steps of action.yml. Inputs are environment variables: nothing of them is read as shell.
set -euo pipefail
place="${RUNNER_TEMP:?}/onnxq"

case "$1" in
  install)
    "${ONNXQ_PYTHON:-python3}" -m venv "$place/venv"
    "$place/venv/bin/python" -m pip install --quiet "$GITHUB_ACTION_PATH${ONNXQ_EXTRAS:+[$ONNXQ_EXTRAS]}"
    ;;
  check)
    words=()
    while IFS= read -r word; do
      if [ -n "$word" ]; then words+=("$word"); fi
    done <<<"${ONNXQ_FLAGS:-}"
    words+=(--as "${ONNXQ_FORM:-github}")
    if [ "${ONNXQ_FORM:-github}" = sarif ]; then
      mkdir -p "$place"
      logs="$(mktemp -d "$place/sarif.XXXXXX")" # of its own: an action may run twice in a job
      words+=(--into "$logs")
      echo "sarif=$logs" >>"${GITHUB_OUTPUT:?}"
    fi
    words+=(--)
    while IFS= read -r model; do
      if [ -n "$model" ]; then words+=("$model"); fi
    done <<<"${ONNXQ_MODELS:-}"
    # Prose has names of the model's: the runner would take a line of "::" as a command, and "##[" anywhere.
    "${ONNXQ_RUN:-$place/venv/bin/python}" -P -m onnxq.cli.each_model "${words[@]}" \
      2> >(sed -u 's/::/: :/g; s/##\[/# #[/g' >&2)
    ;;
esac
