"""Write the built-in detector's file anew from its own weights: the present graph, and other limits of doubt.

    python tools/rewrite_detector.py OLD.onnx NEW.onnx

The weights, the calibration, the second look and the card stay; the answers are the same but for rounding, and for
which boxes are looked at again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from verism.training._onnx_export import read_onnx
from verism.training.detector import written
from verism.training.detector_network import DetectorNetwork, start_from


def main() -> None:
    """Read the arguments and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--width", type=float, default=0.8, help="factor of the network's channels")
    arguments = parser.parse_args()
    weights, properties = read_onnx(arguments.old.read_bytes())
    classes, colors = json.loads(properties["classes"]), json.loads(properties["colors"])
    network = DetectorNetwork(len(classes), len(colors), width=arguments.width)
    start_from(network, weights, range(len(classes) + len(colors)))
    written(network, int(properties["input_size"]), arguments.new, properties)


if __name__ == "__main__":
    main()
