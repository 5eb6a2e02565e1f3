"""For bench/resume_cells.py: as sitecustomize.py beside a training it keeps a trace, and kills where it is told to."""

import json
import os
import signal
from pathlib import Path

RANK = int(os.environ.get("RANK", "-1"))
LAST_RANK = int(os.environ.get("WORLD_SIZE", "1")) - 1
WHAT, _, _AT = os.environ.get("CELL_KILL", "").partition(" ")
AT = int(_AT or -1)


def die_if(what, step, rank=0):
    """End this process here, if this is the moment."""
    if what == WHAT and step == AT and rank == RANK:
        os.kill(os.getpid(), signal.SIGKILL)


def trace_batches(trainer):
    """Write down the rows of each step as they are put together; a moment: before the step after a save."""
    plain = trainer.ExactTrainer._get_num_items_in_batch
    file = Path(f"{os.environ['CELL_TRACE']}.{RANK}.{os.getpid()}")

    def count(self, batch_samples, device):
        found = plain(self, batch_samples, device)
        die_if("next", self.state.global_step)
        entry = {"step": self.state.global_step + 1, "rank": RANK, "rows": self.rows_of_step}
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")
        return found

    trainer.ExactTrainer._get_num_items_in_batch = count


def die_at_a_step(training_state):
    """A moment: a step has ended, nothing is saved of it."""
    plain = training_state.KeepState.on_step_end

    def step_end(self, args, state, control, **others):
        die_if("step", state.global_step, LAST_RANK)
        return plain(self, args, state, control, **others)

    training_state.KeepState.on_step_end = step_end


def die_in_an_evaluation(trainer, scoring):
    """A moment: one batch of validation is done, the second is about to be."""
    plain, plain_batches = trainer.ExactTrainer.evaluate, scoring.batches

    def evaluate(self, *args, **kwargs):
        def batches(*args, **kwargs):
            for number, batch in enumerate(plain_batches(*args, **kwargs)):
                if number == 1:
                    die_if("evaluation", self.state.global_step)
                yield batch

        scoring.batches = batches
        return plain(self, *args, **kwargs)

    trainer.ExactTrainer.evaluate = evaluate


def die_in_a_save(trainer):
    """A moment: weights and optimizer are written, the generators' states and the manifest are not."""
    plain = trainer.ExactTrainer._save_rng_state

    def save(self, folder):
        die_if("save", self.state.global_step)
        return plain(self, folder)

    trainer.ExactTrainer._save_rng_state = save


def mask_at_random(single_label, sampling):
    """A collator that masks tokens by seed, epoch and row; evaluations are not masked."""
    import torch

    plain = single_label.collator

    def collator(tokenizer):
        pad = plain(tokenizer)

        def masked(features):
            batch = pad(features)
            known = zip(batch["row"], batch["epoch"], batch["length"], strict=True) if "row" in batch else ()
            for place, (row, epoch, length) in enumerate(known):
                drawn = sampling.draws(13, int(epoch), int(row)).random(int(length))
                batch["input_ids"][place, : int(length)][torch.from_numpy(drawn < 0.3)] = tokenizer.mask_token_id
            return batch

        return masked

    single_label.collator = collator


def set_up():
    """Patch what a process that torchrun started is about to use."""
    from stages import scoring
    from stages.tasks import single_label
    from stages.training import sampling, trainer, training_state

    trace_batches(trainer)
    die_at_a_step(training_state)
    die_in_an_evaluation(trainer, scoring)
    die_in_a_save(trainer)
    if os.environ["CELL_MASKED"] == "1":
        mask_at_random(single_label, sampling)


if RANK >= 0 and "CELL_TRACE" in os.environ:
    set_up()
