"""What a core install runs: `-m core` imports no other file.

A core install has what `pip install .` brings, pytest and Hypothesis, and then the tools.
"""

from project import ROOT

# The folders of the package whose examples need an extra.
EXAMPLES_NEED_MORE = {"copy_on_write", "course", "engine", "measure", "serving", "store"}

# Test files that need an extra, a script, another program or the whole repository, or say nothing
# about a Python.
NEED_MORE = {
    "test_answers.py", "test_attention.py", "test_bench_copy.py", "test_bench_engine.py",
    "test_broken_checkpoints.py", "test_browser.py", "test_catch.py", "test_changes.py",
    "test_chapter_13.py", "test_chapters_accessible.py", "test_chat.py", "test_chat_format.py",
    "test_classroom.py", "test_cli.py", "test_copy_on_write.py",
    "test_designs.py", "test_drafts.py", "test_drafts_oracle.py", "test_draw.py",
    "test_engine_faults.py", "test_engine_oracle.py", "test_engines.py", "test_english.py",
    "test_exercises.py", "test_extras.py", "test_facts.py", "test_figures.py", "test_film.py",
    "test_film_laws.py", "test_film_words.py", "test_guesses.py", "test_hosted.py", "test_house.py",
    "test_judge.py", "test_kept.py", "test_lab.py", "test_layered.py", "test_layers_of_vllm.py",
    "test_layers_oracle.py",
    "test_learners_engine.py", "test_lite.py", "test_live_chat.py", "test_llama.py", "test_llama_oracle.py",
    "test_mine_verified.py", "test_moves.py", "test_museum_field.py", "test_museum_hash.py",
    "test_museum_llmds.py", "test_mutants.py", "test_notebooks.py", "test_old_files.py",
    "test_oracle_can_fail.py", "test_packed.py", "test_picture.py", "test_pieces.py",
    "test_pieces_in_chapters.py", "test_player_js.py", "test_playground.py",
    "test_playground_browser.py", "test_playground_says.py", "test_playground_widgets.py",
    "test_plot.py", "test_predictions.py", "test_predictions_browser.py", "test_pyodide.py",
    "test_readme.py", "test_real_traffic.py", "test_record.py", "test_reel.py",
    "test_reports_browser.py", "test_setup.py", "test_shelves.py", "test_site.py",
    "test_slots.py", "test_small_model.py", "test_solved_notebooks.py", "test_step_pictures.py",
    "test_store.py", "test_store_audit.py", "test_sweep.py", "test_tokenizer.py",
    "test_tools_extras.py", "test_tools_files.py", "test_tools_wheel.py", "test_wheel.py",
    "test_windowed_model.py", "test_workers.py", "test_workflows.py",
}  # fmt: skip


def is_core(path):
    """Whether a core install runs this file: most of the packages, and most of the test files."""
    if ROOT / "minikv" in path.parents:
        return path.relative_to(ROOT).parts[1] not in EXAMPLES_NEED_MORE
    if ROOT / "tools" / "minikv_tools" in path.parents:
        return path.name != "workers.py"
    return path.name.startswith("test_") and path.name not in NEED_MORE
