# Sourced by the scripts of this folder: the root of the project, messages, and the number of parallel jobs.
# shellcheck shell=bash

BITRIFT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$BITRIFT_ROOT"

# The comment at the top of the calling script is its help.
show_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

die() {  # die STATUS MESSAGE
  printf '%s: %s\n' "$(basename "$0")" "$2" >&2
  exit "$1"
}

bad_usage() { die 2 "unknown argument '$1' (see $(basename "$0") --help)"; }

# duration SECONDS: "12 s" or "3 min 05 s".
duration() {
  if (($1 < 60)); then printf '%d s' "$1"; else printf '%d min %02d s' "$(($1 / 60))" "$(($1 % 60))"; fi
}

# How many compilers run side by side: one a core, and 1.5 GiB of memory for each (what a LibTorch source takes).
compile_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / (1536 * 1024))}' /proc/meminfo)
  if [[ -r /sys/fs/cgroup/memory.max && $(cat /sys/fs/cgroup/memory.max) != max ]]; then
    local limit=$(($(cat /sys/fs/cgroup/memory.max) / (1536 * 1024 * 1024)))
    ((limit < memory)) && memory=$limit
  fi
  ((memory < cores)) && cores=$memory
  ((cores < 1)) && cores=1
  echo "$cores"
}

# project_files GLOB...: the project's files of these names, one a line; files that git ignores are left out.
project_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
      if [[ -f $file ]]; then printf '%s\n' "$file"; fi
    done
  else
    local glob
    for glob in "$@"; do
      find . \( -path ./build -o -path ./.venv -o -path ./results \) -prune -o -type f -name "$glob" -printf '%P\n'
    done
  fi
}

# Where tools that read sources one by one mark the clean ones, each mark named by a key of tools/include_graph.py. Like
# ccache's results they outlive the clone.
clean_marks() {  # clean_marks TOOL: the folder
  local folder=${XDG_CACHE_HOME:-${HOME:-$BITRIFT_ROOT/build}/.cache}/bitrift/$1
  mkdir -p "$folder"
  find "$folder" -type f -mtime +30 -delete
  echo "$folder"
}

# plain_configure FOLDER: configures a build of its own for tools that read sources one by one: a command for each, and no
# precompiled header, which only the compiler can read. Without LibTorch in .venv, leaves out what needs it.
plain_configure() {
  local train=ON
  compgen -G '.venv/lib/python3*/site-packages/torch/share' >/dev/null || [[ -n ${CMAKE_PREFIX_PATH:-} ]] || train=OFF
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DBITRIFT_UNITY=OFF \
    -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON "-DBITRIFT_TRAIN=$train" >/dev/null
}
