"""What a runner has of a job's images: how that ranks, and how it is said."""

from hub.placement.model import Demand, Offer

HOLDS, FETCHING, LACKS = 2, 1, 0  # every image; every one held or on its way; neither: more is better


def images_rank(demand: Demand, offer: Offer) -> int:
    """HOLDS, FETCHING or LACKS: a fetch that is under way is half the wait of one not yet begun."""
    missing = demand.images - offer.images
    if not missing:
        return HOLDS
    return FETCHING if missing <= offer.fetching else LACKS


def images_phrase(demand: Demand, offer: Offer) -> str:
    """`holds the image`, `is fetching it`, `fetches it from the hub`, `needs no image`; and plurals."""
    needed, missing = len(demand.images), len(demand.images - offer.images)
    if not needed:
        return "needs no image"
    the = "the image" if needed == 1 else f"the {needed} images"
    if not missing:
        return f"holds {the}"
    those = the if missing == needed else f"{missing} of {the}"
    if images_rank(demand, offer) == FETCHING:
        return f"is fetching {those}"
    return f"fetches {those} from the hub"
