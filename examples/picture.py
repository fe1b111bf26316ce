"""A picture through a network of the zoo: preprocessing, the network, the likeliest classes.

    python examples/picture.py [PICTURE] [WEIGHTS.npz or .onnx]

Without a picture, one is drawn. Weights are random unless a file gives them, so the classes mean
nothing then. Needs Pillow: pip install 'neuralsym[images]'.
"""

import sys

from PIL import Image, ImageDraw

from neuralsym import zoo

NAME = "squeezenet1_1"


def draw() -> Image.Image:
    """A house under the sun."""
    image = Image.new("RGB", (320, 240), "skyblue")
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 180, 320, 240), fill="seagreen")
    pen.ellipse((240, 20, 290, 70), fill="gold")
    pen.rectangle((90, 110, 210, 200), fill="firebrick")
    pen.polygon([(75, 110), (150, 50), (225, 110)], fill="saddlebrown")
    pen.rectangle((135, 150, 165, 200), fill="black")
    return image


def main(picture: str | None = None, weights: str | None = None) -> None:
    network = zoo.create(NAME)
    if weights:
        network.load_weights(weights)
    else:
        print(f"{NAME} with random weights: the classes below mean nothing until you give some")
    if picture is None:
        picture = "house.png"
        draw().save(picture)
        print(f"drew {picture}")
    pixels = zoo.preprocess(NAME)(picture)
    print(f"{picture}: {zoo.preprocess(NAME)} -> {pixels.dtype}{list(pixels.shape)}")
    (best,) = zoo.decode(NAME, network(pixels), top=5)
    for place, found in enumerate(best, 1):
        print(f"{place}. {found.label:12} {100 * found.score:6.2f} %")


if __name__ == "__main__":
    main(*sys.argv[1:3])
