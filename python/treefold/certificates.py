"""Makes an authority and certificates of sites, with which workers encrypt what they send and know each other.

The authority stays in one folder, and each site gets a folder of its own in it, which `TREEFOLD_TLS` names there: the
certificate of the authority, and the site's certificate and key. Keys are on the curve P-256.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

from treefold import checks
from treefold.errors import OutsideError, TreefoldError
from treefold.extras import missing
from treefold.text import message, visible

MOST_DAYS = 3650
"""How long an authority lasts, which is the most for a certificate."""

DOMAIN = ".treefold.internal"
"""What follows the site in the name of a certificate: a certificate for anything else is none for a worker."""

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
CERTIFICATE, KEY = "certificate.pem", "key.pem"

_SITE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_EARLY = timedelta(hours=1)
"""Certificates are valid a little earlier than now, as clocks differ."""


class Made(NamedTuple):
    """A certificate that was made for a site."""

    site: str
    folder: Path
    valid_until: datetime


def make(sites: Sequence[str], folder: str | Path, days: int = 365) -> list[Made]:
    """Make a certificate for each site, and before that the authority if the folder has none.

    Args:
        sites: The names of the sites: letters, digits, and within a name `-` and `_`. A worker's TREEFOLD_NAME is the
            site, or begins with the site and `/` or `:`.
        folder: The folder of the authority. Each site gets a folder of its name in it, which is to be copied there.
        days: How long the certificates are valid. An authority is valid for 3650 days.

    Returns:
        The certificates, in the order of the sites.

    Raises:
        TreefoldError: If a name or the number of days cannot be used, a site has a certificate already, the authority's
            files are damaged, or the package `cryptography` is missing.
        OutsideError: If a file cannot be read or written.

    Example:
        >>> import tempfile
        >>> from treefold import certificates
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = certificates.make(["paris", "rome"], folder)
        ...     [(each.site, sorted(path.name for path in each.folder.iterdir())) for each in made]
        [('paris', ['authority.pem', 'certificate.pem', 'key.pem']), ('rome', ['authority.pem', 'certificate.pem', ...

    """
    folder = Path(folder)
    checks.whole("the number of days", days, 1, MOST_DAYS)
    _check_sites(sites, folder)
    _import_x509()
    with _failures(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _authority(folder)
        return [_make_site(site, folder, authority, days) for site in sites]


class _Authority(NamedTuple):
    certificate: Any
    key: Any


def _import_x509() -> Any:
    try:
        from cryptography import x509
    except ImportError:
        raise missing("making certificates", "tls") from None
    return x509


def _check_sites(sites: Sequence[str], folder: Path) -> None:
    """Refuse names that cannot be sites, repeated ones, and sites that have a certificate."""
    if not sites:
        raise TreefoldError("no site is given; name at least one, for example: paris rome")
    for site in sites:
        if not _SITE.fullmatch(site):
            raise TreefoldError(
                f"site '{visible(site[:80])}' is not a name of at most 63 letters, digits, '-' and '_' that begins and "
                "ends with a letter or a digit; choose another"
            )
    folded = [site.lower() for site in sites]
    for site in sites:
        if folded.count(site.lower()) > 1:
            raise TreefoldError(f"site '{site}' is given twice; names that differ in case only are the same")
        if (folder / site).exists():
            raise TreefoldError(f"site '{site}' has a certificate already in {folder / site}; to renew it, remove that")


def _authority(folder: Path) -> _Authority:
    """Return the authority of a folder, which is made if there is none."""
    certificate, key = folder / AUTHORITY, folder / AUTHORITY_KEY
    there = [path for path in (certificate, key) if path.exists()]
    if len(there) == 1:
        absent = key if there == [certificate] else certificate
        raise TreefoldError(f"{folder} has {there[0].name} but no {absent.name}; bring it back, or use another folder")
    return _read_authority(certificate, key) if there else _make_authority(certificate, key)


def _read_authority(certificate_path: Path, key_path: Path) -> _Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = load_pem_private_key(key_path.read_bytes(), None)
    except (ValueError, TypeError):
        raise TreefoldError(
            f"{certificate_path.parent}: {AUTHORITY} and {AUTHORITY_KEY} are not a certificate and its key; use "
            "another folder"
        ) from None
    if certificate.public_key() != key.public_key():
        raise TreefoldError(f"{key_path} is not the key of {certificate_path}; use another folder")
    if certificate.not_valid_after_utc <= _now():
        raise TreefoldError(
            f"{certificate_path} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; make a new one "
            "in another folder, and new certificates for all sites"
        )
    return _Authority(certificate, key)


def _make_authority(certificate_path: Path, key_path: Path) -> _Authority:
    from cryptography import x509

    key = _new_key()
    name = _name("treefold authority")
    builder = _builder(name, name, key.public_key(), _now() + timedelta(days=MOST_DAYS))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(is_authority=True), critical=True)
    certificate = _signed(builder, key, key)
    _write(key_path, _key_pem(key), 0o600)
    _write(certificate_path, _pem(certificate), 0o644)
    return _Authority(certificate, key)


def _make_site(site: str, folder: Path, authority: _Authority, days: int) -> Made:
    """Make a site's folder, which is there whole or not at all."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

    until = min(_now() + timedelta(days=days), authority.certificate.not_valid_after_utc)
    key = _new_key()
    builder = _builder(_name(site), authority.certificate.subject, key.public_key(), until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(is_authority=False), critical=True)
    purposes = x509.ExtendedKeyUsage([Purpose.SERVER_AUTH, Purpose.CLIENT_AUTH])
    builder = builder.add_extension(purposes, critical=False)
    names = x509.SubjectAlternativeName([x509.DNSName(site + DOMAIN)])
    certificate = _signed(builder.add_extension(names, critical=False), key, authority.key)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{site}-", dir=folder))  # only its owner may enter it
    try:
        _write(unfinished / KEY, _key_pem(key), 0o600)
        _write(unfinished / CERTIFICATE, _pem(certificate), 0o644)
        _write(unfinished / AUTHORITY, _pem(authority.certificate), 0o644)
        unfinished.rename(folder / site)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return Made(site, folder / site, certificate.not_valid_after_utc)


def _builder(subject: Any, issuer: Any, public_key: Any, until: datetime) -> Any:
    from cryptography import x509

    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(_now() - _EARLY).not_valid_after(until)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)


def _signed(builder: Any, key: Any, authority_key: Any) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return builder.add_extension(issuer, critical=False).sign(authority_key, hashes.SHA256())


def _usage(is_authority: bool) -> Any:
    from cryptography import x509

    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    signs = {"digital_signature": not is_authority, "key_cert_sign": is_authority, "crl_sign": is_authority}
    return x509.KeyUsage(**signs, **dict.fromkeys((*others, "decipher_only"), False))


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    pem: bytes = certificate.public_bytes(Encoding.PEM)
    return pem


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a new file that from its first moment has these permissions; a file that exists is an error."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@contextmanager
def _failures(folder: Path) -> Iterator[None]:
    try:
        yield
    except OutsideError:
        raise
    except OSError as error:
        where = error.filename or folder
        reason = error.strerror or type(error).__name__
        raise OutsideError(message(str(where), f"{reason}; choose another folder")) from None
