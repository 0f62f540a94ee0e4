"""Tokens: counters, estimates, image costs, and messages as text."""

from jaato_gc.tokens.counting import DEFAULT_COUNTER as DEFAULT_COUNTER
from jaato_gc.tokens.counting import Confidence as Confidence
from jaato_gc.tokens.counting import EstimateCounter as EstimateCounter
from jaato_gc.tokens.counting import FrameCosts as FrameCosts
from jaato_gc.tokens.counting import TokenCounter as TokenCounter
from jaato_gc.tokens.counting import count_tokens as count_tokens
from jaato_gc.tokens.counting import message_tokens as message_tokens
from jaato_gc.tokens.counting import recount as recount
from jaato_gc.tokens.counting import text_tokens as text_tokens
from jaato_gc.tokens.estimate import ESTIMATE_TOLERANCE as ESTIMATE_TOLERANCE
from jaato_gc.tokens.estimate import estimate_tokens as estimate_tokens
from jaato_gc.tokens.exact import TiktokenCounter as TiktokenCounter
from jaato_gc.tokens.exact import choose_counter as choose_counter
from jaato_gc.tokens.images import image_size as image_size
from jaato_gc.tokens.images import image_tokens as image_tokens
from jaato_gc.tokens.rendering import SEPARATOR as SEPARATOR
from jaato_gc.tokens.rendering import as_text as as_text
from jaato_gc.tokens.rendering import render as render
from jaato_gc.tokens.rendering import render_message as render_message
from jaato_gc.tokens.rendering import split_text as split_text
