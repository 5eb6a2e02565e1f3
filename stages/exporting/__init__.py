"""What the export stage writes: ONNX files, their comparison with PyTorch, the model card."""
