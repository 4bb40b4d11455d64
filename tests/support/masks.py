"""The mask of one upload, by the path that hides it."""

from dataclasses import dataclass

from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, MaskContext, upload_field
from fastlloyd.federation.secagg.ring import Ring, RingVector


@dataclass(frozen=True, kw_only=True)
class MaskedUpload(MaskContext):
    """Everything one mask is bound to."""

    client: str
    upload_nonce: bytes

    def to_bytes(self) -> bytes:
        """The encoding that the mask's key is derived from, behind its label."""
        return self.before + upload_field(self.client, self.upload_nonce) + self.after


def expand_mask(key: GroupKey, upload: MaskedUpload, length: int, ring: Ring) -> RingVector:
    """What hides `length` zeros."""
    return GroupMasks(key, ring).hide(ring.zeros(length), upload, upload.client, upload.upload_nonce)
