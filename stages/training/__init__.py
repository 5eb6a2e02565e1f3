"""How the train stage does it: which rows make which batch, the Trainer, the state that resume needs."""
