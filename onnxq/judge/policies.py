"""Each policy and threshold of judgement, with why it is that."""

from __future__ import annotations

import math
from dataclasses import replace

from onnxq.judge.acceptance import LEAST_DB, Policy
from onnxq.judge.loss import ENOUGH_DB

# Any gain at all.
ANY_DB = math.ulp(0.0)

# -- repair: whether a step is kept ----------------------------------------------------------------

# All outputs together are to be nearer, and none of them is to pay more than half a dB for the others, unless
# that is next to nothing beside what they gain.
STEP = Policy(least_db=LEAST_DB, may_lose_db=0.5, price=0.1)

# One of several seems to gain by chance, too: more than half a standard error, or in nearly all groups.
BEST_OF_SEVERAL = replace(STEP, sure=0.5, sure_alike=2.5)

# What is fitted with many rows for each number: a loss that is not shown is chance, whatever the samples say.
FITTED = replace(STEP, least_db=-math.inf, sure=-2.0)

# What a step has to gain where the engine moves more with it, dB for all the bytes that plain float16 moves:
# half a dB for each tenth.
BYTES_PRICE_DB = 5.0

# By less an edited float model may not differ from the one without edits, on samples that choose.
NEAR_DB = 60.0

# -- scales: which the outputs choose --------------------------------------------------------------

# A method: noise is rare and large where values are clipped, so that the least may be chance.
INSTEAD_OF_PRIOR = Policy(sure=0.5)

# The best method so far over another one, which is tried no further then: that cannot be made up for.
HOPELESS = Policy(least_db=1.0, sure=2.0)

# Another threshold of one tensor, after the first samples.
PROMISING = Policy(sure=1.0)

# The same after all: in 5 % of cases any of 16 that gain nothing seems to.
THRESHOLD = Policy(least_db=ANY_DB, sure=2.7, by_answers=False)

# All of these together: each of them was sure.
TOGETHER = Policy(least_db=ANY_DB)

# -- number formats: whether a mix takes the place of the better of them alone ----------------------

# All together nearer, by its price of bytes and by more than chance; no output pays more than half a dB.
MIXED = replace(STEP, sure=0.5, sure_alike=2.5)

# -- layers in int8 or float -----------------------------------------------------------------------

# The SQNR of the worst part from which on attention is in int8 whatever that costs, where there is no goal.
JOINTS_FLOOR_DB = ENOUGH_DB

# What is loud in float: what that gains at least, all together, or its price. The best of a dozen sets seems
# to gain by chance, too: it is sure by two standard errors. No output is to pay much for the others.
LOUD = Policy(least_db=1.0, sure=2.0, may_lose_db=1.0)

# The same on samples that chose nothing.
LOUD_CONFIRMED = replace(LOUD, sure=-math.inf)

# What it has to gain for all eligible multiply-accumulates, dB, half for each percent; and for each layer.
LOUD_PRICE_DB, LOUD_PRICE_OF_ONE_DB = 50.0, 0.1

# Which part of them may go to float for it where nobody asks: as good as none of the speed.
LOUD_MOST = 0.01

# The same where an output is bad without: what is beyond costs twice the price.
LOUD_MOST_OF_BAD = 0.05

# Which part of an output's noise one source makes that is loud.
LOUD_SHARE = 0.3

# The SQNR from which on an output needs no look for what is loud, and the one below which it is lost.
GOOD_DB, LOST_DB = 25.0, 10.0

# -- the answer: whether a result is near enough -----------------------------------------------------

# What the worst part of the outputs has of a model of which nobody says what it is for. Of less than the
# first a tenth of the signal is error; between the two nothing says whether that is near enough.
BAD_DB, ENOUGH_FOR_ALL_DB = 20.0, ENOUGH_DB

# Percent of the answers that other samples keep at least, in 95 of 100 cases, of a result that is shipped: 16
# samples that keep all tell so, or 58 of 64.
SHIP_FROM = 80.0

# -- a goal: other questions than which is better --------------------------------------------------

# Above a goal of dB: from there on int8 as it is needs no other samples.
CLEAR_DB = 1.0

# A set of layers in float that is predicted to miss a goal by more is not measured.
MISSES_DB = 1.0

# By more than so many standard errors a difference is none of chance: in 5 % of cases it seems so.
SURE = 1.645

# So much of the int8 work goes to float for a gain that is not resolved, at most: 0 to 1.
GIVEN_AWAY = 0.05

# -- a body in half precision: whether its error is small ------------------------------------------

# By how much the body alone is to be nearer to float32 than int8 alone: it adds 0.14 dB then.
ABOVE_DB = 15.0

# By how much at least, where int8 was repaired: it adds 0.4 dB then, and more float32 would cost speed.
LEAST_ABOVE_DB = 10.0

# By how much less it may be all the same: more float32 would bring an output 0.2 dB, and costs bytes.
SHORT_DB = 2.0

# What is near enough of scores whose logits are judged, too: a few samples may be clear, and near by chance.
SCORES_DB = ENOUGH_FOR_ALL_DB + LEAST_ABOVE_DB

# What is always near enough: float32 has about 140 dB of its own.
AS_GOOD_DB = 100.0

# A body's noise that is nearer to that of int8 makes predictions unreliable: powers may not add up.
BODY_APART_DB = 15.0

# The SQNR below which a tensor counts as lost, where what it is computed from is not.
FLOOR_DB = 20.0
