"""The named tuples that functions with several results return."""

from collections import namedtuple

aminmax = namedtuple("aminmax", ["min", "max"])
cummax = namedtuple("cummax", ["values", "indices"])
cummin = namedtuple("cummin", ["values", "indices"])
frexp = namedtuple("frexp", ["mantissa", "exponent"])
histogram = namedtuple("histogram", ["hist", "bin_edges"])
kthvalue = namedtuple("kthvalue", ["values", "indices"])
max = namedtuple("max", ["values", "indices"])
median = namedtuple("median", ["values", "indices"])
min = namedtuple("min", ["values", "indices"])
mode = namedtuple("mode", ["values", "indices"])
nanmedian = namedtuple("nanmedian", ["values", "indices"])
sort = namedtuple("sort", ["values", "indices"])
topk = namedtuple("topk", ["values", "indices"])

lu = namedtuple("lu", ["LU", "pivots", "info"])
lu_unpack = namedtuple("lu_unpack", ["P", "L", "U"])
qr = namedtuple("qr", ["Q", "R"])
slogdet = namedtuple("slogdet", ["sign", "logabsdet"])
svd = namedtuple("svd", ["U", "S", "V"])
triangular_solve = namedtuple("triangular_solve", ["solution", "cloned_coefficient"])
