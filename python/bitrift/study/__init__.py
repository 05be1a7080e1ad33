"""The part of `bitrift-train checkpoint-study` that uses other libraries: native writers and readers of formats."""
