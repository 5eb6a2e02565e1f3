"""What the saves of resume state cost a training, at the interval that params.yaml has.

    python -m bench.save_cost     # where `dvc repro` has run: it trains once, into a temporary folder

Prints the number of saves, the seconds of each and their share of the time between the first and the last step.
"""

import os
import tempfile
import time
from pathlib import Path

from stages import command, hardware, params, processes, train


def main() -> None:
    """Train the first seed with a clock at every save."""
    knobs = params.load_params()
    os.environ["OMP_NUM_THREADS"] = str(hardware.threads(knobs.train.threads, processes=1))
    command.set_up_libraries(offline=True)
    command.set_up_logging()
    processes.forget_launcher()
    from stages.training import trainer, training_state

    saves, completions, total = [], [], []

    def timed(plain, times):
        def run(*args, **kwargs):
            began = time.perf_counter()
            found = plain(*args, **kwargs)
            times.append(time.perf_counter() - began)
            return found

        return run

    ours = trainer.ExactTrainer
    ours._save_checkpoint = timed(ours._save_checkpoint, saves)
    ours.train = timed(ours.train, total)
    training_state.KeepState.on_save = timed(training_state.KeepState.on_save, completions)
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["REMINT_STATE"] = f"{temporary}/state"
        out = Path(temporary) / "models"
        train.train(
            Path("data/encoded"), Path("models/base"), out / "checkpoints/1", out / "history/1.csv", seed=knobs.seeds[0]
        )
    both = [one + other for one, other in zip(saves, completions, strict=True)]
    each = ", ".join(f"{seconds:.2f}" for seconds in both)
    print(
        f"every {knobs.runtime.save_steps} steps: {len(saves)} saves of {each} s in a training of {total[0]:.1f} s: "
        f"{sum(both) / total[0]:.2%}"
    )


if __name__ == "__main__":
    main()
