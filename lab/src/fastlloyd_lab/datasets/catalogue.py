"""The named public data sets: what each is, whose it is, and which values it consists of.

A set is known by the digest of its values, so it does not matter in which format, or from where, it
came. Nothing here reads or fetches anything: `homes.py` does.
"""

import enum
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt


class Form(enum.Enum):
    """How the file of a home is written. Either may be compressed by gzip."""

    TEXT = "one record a line, cells separated by commas or white space, no header"
    IDX = "idx3-ubyte: images of unsigned bytes, one record an image, row by row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A public file, pinned to one version, that holds a set.

    has_class : the last cell of a line is a class, and left out; what stands before the features is
    an id, and left out, too. missing : what stands for "?", None where there is none.
    """

    address: str
    form: Form = Form.TEXT
    has_class: bool = False
    missing: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A named public set of records.

    n_records, n_features : its shape; n_clusters : how many clusters are usually asked of it;
    digest : `values_digest` of its records in their order; bundled : the function of
    sklearn.datasets that has the same values, if one does; homes : where it can be fetched from,
    tried in this order. The others are sentences.
    """

    name: str
    n_records: int
    n_features: int
    n_clusters: int
    about: str
    citation: str
    digest: str
    homes: tuple[Home, ...]
    licence: str = "not stated"
    changes: str = "none"
    bundled: str | None = None


def values_digest(values: npt.NDArray[np.float64]) -> str:
    """SHA-256, as hex digits, of a matrix (n, d): n and d as 64 bits each, then its float64 cells
    row by row, little-endian.

    The same numbers in the same order have the same digest, whatever file they came in.
    """
    digest = hashlib.sha256(struct.pack("<QQ", *values.shape))
    digest.update(np.ascontiguousarray(values, dtype="<f8").data)
    return digest.hexdigest()


_RAW = "https://raw.githubusercontent.com/"
_EXPERIMENTS = _RAW + "D-Diaa/privateclustering/2fffc839c5/data/"
_BROWNLEE = _RAW + "jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f/"
_GAGOLEWSKI = _RAW + "gagolews/clustering-data-v1/27ac73a6fd/"
_MEASUREMENTS = (
    _RAW + "nefagi-01/DIAS-semester-project/33ff06cb3fab4d927bc406e0f6b86861c2fbe673/datasets/"
)
_MNIST = _RAW + "potterhsu/MnistTensorFlowVsPyTorch/2d3961f7fb76f41afd0b8101dab03ba80f73fc9f/data/"

_CC_BY = "CC BY 4.0 (as published by the UCI Machine Learning Repository)"
_NOT_STATED = "not stated; published for research, and its makers ask to be cited"
_UCI = "UCI Machine Learning Repository"
_BENCHMARK = (
    "Fränti and Sieranoja, K-means properties on six clustering benchmark datasets, Applied"
    " Intelligence 48(12), 2018"
)


def _size(n_records: int, n_features: int, n_clusters: int) -> dict[str, Any]:
    return {"n_records": n_records, "n_features": n_features, "n_clusters": n_clusters}


_SETS = (
    DataSet(
        name="iris",
        **_size(150, 4, 3),
        about=(
            "lengths and widths of sepals and petals of 150 iris flowers, in cm, sorted by species"
        ),
        citation=(
            "Fisher, The use of multiple measurements in taxonomic problems, Annals of Eugenics"
            f" 7(2), 1936; {_UCI}"
        ),
        licence=_CC_BY,
        changes=(
            "the species is left out; the values are UCI's, which differ from Fisher's, and so from"
            " scikit-learn's copy (its digest begins with 78ac7575), in three cells: record 35,"
            " feature 4 (0.1 for 0.2); record 38, features 2 and 3 (3.1 for 3.6, 1.5 for 1.4)"
        ),
        digest="0c7c824e264c199c4c1ff55e923dfd34998f4e6ea338fbe788503063c2015933",
        homes=(
            Home(address=_BROWNLEE + "iris.csv", has_class=True),
            Home(address=_EXPERIMENTS + "iris.txt"),
        ),
    ),
    DataSet(
        name="lsun",
        **_size(400, 2, 3),
        about="400 points in the plane in two oblong clusters and a round one, sorted by cluster",
        citation=(
            "Ultsch, Clustering with SOM: U*C, Workshop on Self-Organizing Maps, 2005 (in the"
            " Fundamental Clustering Problems Suite)"
        ),
        digest="17e21b66d8365e8d9f5c1f74144d5462272537cb109cd7b1e9cd62da82e1ff9a",
        homes=(Home(address=_EXPERIMENTS + "lsun.txt"),),
    ),
    DataSet(
        name="s1",
        **_size(5000, 2, 15),
        about="5,000 points in the plane in 15 well separated Gaussian clusters, sorted by cluster",
        citation=(
            "Fränti and Virmajoki, Iterative shrinking method for clustering problems, Pattern"
            " Recognition 39(5), 2006"
        ),
        licence=_NOT_STATED,
        digest="e479212d07453d1193d2ab0223c3b04898225b0a67cac0854fc6363e89ce238d",
        homes=(Home(address=_MEASUREMENTS + "s1.csv"), Home(address=_EXPERIMENTS + "s1.txt")),
    ),
    DataSet(
        name="house",
        **_size(1837, 3, 3),
        about=(
            "distinct colours (red, green, blue) of a picture of a house, by appearance: multiples"
            " of 8, each once, sorted"
        ),
        citation=(
            "by appearance from the image data of the clustering benchmark of the same group as"
            f" S1; {_BENCHMARK}"
        ),
        digest="b24500929bfae9c7ab9a9636f5480be0aee34159c079815af2d15a90238f4bf2",
        homes=(Home(address=_EXPERIMENTS + "house.txt"),),
    ),
    DataSet(
        name="wine",
        **_size(178, 13, 3),
        about=(
            "13 chemical measurements of 178 Italian wines of three cultivars, sorted by cultivar"
        ),
        citation=f"Aeberhard and Forina, Wine, 1992, {_UCI}",
        licence=_CC_BY,
        changes="the cultivar is left out",
        digest="26ddbe122407c330eb571929541181ca0c42a6da6883ea02ca1904c1c6b3317e",
        homes=(Home(address=_BROWNLEE + "wine.csv", has_class=True),),
        bundled="load_wine",
    ),
    DataSet(
        name="breast",
        **_size(699, 9, 2),
        about=(
            "nine grades from 1 to 10 of the cells of 699 breast tumours; not the set that"
            " scikit-learn has (Diagnostic)"
        ),
        citation=f"Wolberg, Breast Cancer Wisconsin (Original), 1990, {_UCI}",
        licence=_CC_BY,
        changes=(
            "id and class are left out; the 16 missing cells of feature 6 (bare nuclei) are its"
            " median, 1"
        ),
        digest="bb02ebb06e1ca1879e268f84fb29a2861b8f0d80da7400d457eb913617abe62a",
        homes=(
            Home(address=_BROWNLEE + "breast-cancer-wisconsin.csv", has_class=True, missing=1.0),
        ),
    ),
    DataSet(
        name="yeast",
        **_size(1484, 8, 10),
        about=(
            "eight scores of 1,484 yeast proteins, made to tell where in the cell each is at home"
        ),
        citation=(
            f"Nakai, Yeast, 1991, {_UCI}; Horton and Nakai, Intelligent Systems for Molecular"
            " Biology 4, 1996"
        ),
        licence=_CC_BY,
        changes="name and class are left out",
        digest="5fe8d4167263144018432f9cf82efe368ae684f178b1083f352f211dba9240cf",
        homes=(Home(address=_GAGOLEWSKI + "uci/yeast.data.gz"),),
    ),
    DataSet(
        name="adult",
        **_size(48842, 6, 3),
        about=(
            "six numbers on each of 48,842 people of the US census of 1994: age, weight in the"
            " sample, years of education, capital gain, capital loss, hours of work a week"
        ),
        citation=f"Becker and Kohavi, Adult, 1996, {_UCI}",
        licence=_CC_BY,
        changes="training and test records together; columns that are not numbers are left out",
        digest="c9929826412aae64517b49baa672b7e4a223247b5cc1571a005adb91139a196b",
        homes=(Home(address=_EXPERIMENTS + "adult.txt"),),
    ),
    DataSet(
        name="mnist",
        **_size(10_000, 784, 10),
        about=(
            "the 10,000 test images of handwritten digits, 28 x 28 grey levels from 0 to 255, row"
            " by row"
        ),
        citation=(
            "LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document"
            " recognition, Proceedings of the IEEE 86(11), 1998"
        ),
        licence="not stated by its makers; copies of it are often labelled CC BY-SA 3.0",
        changes="the digits' labels are left out; 116 features are 0 in all records",
        digest="dbe12d6ad66179eeaa9af23407e1adc714803fe5bb33a6d89ff1bfce8b6298b2",
        homes=(Home(address=_MNIST + "t10k-images-idx3-ubyte.gz", form=Form.IDX),),
    ),
    DataSet(
        name="birch2",
        **_size(100_000, 2, 100),
        about="100,000 points in the plane in 100 clusters along a sine curve",
        citation=(
            "Zhang, Ramakrishnan and Livny, BIRCH: a new data clustering algorithm and its"
            " applications, Data Mining and Knowledge Discovery 1(2), 1997"
        ),
        licence=_NOT_STATED,
        digest="2cf42e91e98009e3c991b2edd70359886d109448a3a4ffd439ccfaed9ab8d78f",
        homes=(
            Home(address=_MEASUREMENTS + "birch2.csv"),
            Home(address=_GAGOLEWSKI + "sipu/birch2.data.gz"),
        ),
    ),
    DataSet(
        name="birch2-25k",
        **_size(25_000, 2, 100),
        about=(
            "25,000 of the points of birch2, drawn at random, as published with an earlier version"
            " of the paper's code"
        ),
        citation="as birch2",
        licence=_NOT_STATED,
        digest="fe7eca429af99d4d14ece6ebbee3ec74bc03d9b3cc6a838828639211deec3e54",
        homes=(Home(address=_EXPERIMENTS + "birch2.txt"),),
    ),
)


_G2_DIGESTS = {
    "g2-2-30": "742bf53b0894a8cd90a32634ea5c2786a2f9cfc1724d0ef3ec17492c695ad613",
    "g2-2-50": "40bb30fe68e3653bf74e4a7c683439b00235559b0521bb6ea7039bfb19789082",
    "g2-2-70": "4d135c3be9836fb41e413e58ca76376c2d95bd61e46d5e68272f5b52ad6ec385",
    "g2-4-30": "3ba9d2c90ef9064e114e0c31e9f0b6dae58835df517e06c13527f87aa15f7e1b",
    "g2-4-50": "0dd8375f516ccd3a0374a571ad244c3d48f4297179ba5397c8904c832ddf54e7",
    "g2-4-70": "84da307096687d818f8ca141a79a95c02da95babc2106d7af84657d671f6223c",
    "g2-8-30": "7cbb78e6a7e1e7380c0cc0d2f5d5ab41b10b313ed3860d2cc7539d6c4c18c1eb",
    "g2-8-50": "3e44094c73d2ce17c1be578b68096666b9b2d6e640d5152868760090b2cec251",
    "g2-8-70": "6de0d31f616fb689d4d5b3d58ccb631351d54619d408109d08fae187b9133d67",
    "g2-16-30": "a40c9bf912b148ef4266d3969a1dc577d1cabe725c322fff08d4d02becdca239",
    "g2-16-50": "69699720cf3274da93e439049d1e784329330b646996eeb5e356dafe2aace9f0",
    "g2-16-70": "db8e55bc43676ca739b69f91869504f1814f0ab670ea3cf985a86b984f8fd62d",
    "g2-32-30": "5db073274fe4cbd071c1e78f5cf3bf2304793c4d607882652909bcfc6d118b1d",
    "g2-32-50": "bf406dd70bd513a7c1af60f4482d9cc2b7329aecd6e7c7bfb6f9835f48eefcd4",
    "g2-32-70": "36091f655a384f9cb007425c4f1ece88621a79cec2d6b213048eb0df315f6a49",
    "g2-64-30": "cec732d62f8cf7466960047eee8ef18f0bf97ba79d027e85324bbb9790077d91",
    "g2-64-50": "7faf637ccfd5223f2618e7efc980129307f417f8f95ddd273d5d023c5cf691fc",
    "g2-64-70": "3bcffc42eace3a7911de79628b7e1e084afa5c9e6afec091fd32f1a0900dab44",
    "g2-128-30": "9b6c24e71ae18bc39e60087b3d9d1481028ad5a5d8f5eddbc17f0fc58e8101b5",
    "g2-128-50": "21f515ac68df5a821ea9a26955962446f06a4fb9c8dfc8d53a2487da67046bab",
    "g2-128-70": "b527456d40b5eb5450c6cebfba1ad928e203efa56ebc200fa80483a7e70778ac",
    "g2-256-30": "1edb4938507bb4c1a4178651a78e3dc053f2f851b1e07cbb60f76a8b62a6e23b",
    "g2-256-50": "7370503326f62859d5bfabc2cf292b5ffcabf7cfc3b01f825256a0fd7e778e3f",
    "g2-256-70": "e85330928e173b8dcb677bbd69305c21fe635c34dd1628b5292d6bb53de45d78",
    "g2-512-100": "9db1e4168cdaf05797e5b2b9712530e267e5241c33e6afff9473a15285e1d9cf",
}


def _g2(name: str) -> DataSet:
    _, n_features, deviation = name.split("-")
    return DataSet(
        name=name,
        **_size(2048, int(n_features), 2),
        about=(
            "two Gaussian clusters of 1,024 points about (500, ...) and (600, ...), standard"
            f" deviation {deviation}, sorted"
        ),
        citation=_BENCHMARK,
        licence=_NOT_STATED,
        digest=_G2_DIGESTS[name],
        homes=(Home(address=f"{_MEASUREMENTS}{name}.csv"),),
    )


CATALOGUE: Mapping[str, DataSet] = MappingProxyType(
    {entry.name: entry for entry in (*_SETS, *map(_g2, _G2_DIGESTS))}
)
"""The sets by name: those of the paper, then the members of G2 that are published as files."""
