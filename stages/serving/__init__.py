"""An exported model without the training stack: its files, its tokens, its session, rows in and out."""
