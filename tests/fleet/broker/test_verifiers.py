from __future__ import annotations

import base64
import hashlib

import bcrypt
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.broker.verifiers import Verifiers, check_password, make_verifiers
from fleet.errors import PasswordUnusable, VerifierDamaged

PASSWORDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=72)
SALTS = st.binary(min_size=16, max_size=16)


@settings(max_examples=50, deadline=None)
@given(PASSWORDS, SALTS)
def test_a_password_is_accepted_by_its_own_verifiers_and_both_kinds_agree(password: str, salt: bytes) -> None:
    verifiers = make_verifiers(password, salt=salt)
    assert check_password(verifiers, password)
    _, kind, iterations, mosquitto_salt, digest = verifiers.mosquitto.split("$")
    raw = hashlib.pbkdf2_hmac("sha512", password.encode(), base64.b64decode(mosquitto_salt), int(iterations))
    assert (kind, base64.b64decode(digest)) == ("7", raw)


@settings(max_examples=50, deadline=None)
@given(PASSWORDS, PASSWORDS, SALTS)
def test_another_password_is_refused(password: str, other: str, salt: bytes) -> None:
    assert check_password(make_verifiers(password, salt=salt), other) == (password == other)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_string_may_be_asked(asked: str) -> None:
    assert not check_password(make_verifiers("the right one", salt=b"s" * 16), asked)


def test_the_salt_is_encoded_as_bcrypt_itself_does() -> None:
    salt = bytes(range(16))
    verifier = make_verifiers("x", salt=salt).bcrypt
    assert bcrypt.hashpw(b"x", verifier[:29].encode()).decode() == verifier
    # OpenBSD's base64 of 00 01 ... 0f, from the alphabet "./A-Za-z0-9".
    assert verifier[7:29] == "..CA.uOD/eaGAOmJB.yMBu"


def test_the_same_password_and_salt_give_the_same_verifiers_and_another_salt_others() -> None:
    first = make_verifiers("pw", salt=b"a" * 16)
    assert first == make_verifiers("pw", salt=b"a" * 16)
    other = make_verifiers("pw", salt=b"b" * 16)
    assert first.bcrypt != other.bcrypt
    assert first.mosquitto != other.mosquitto


@pytest.mark.parametrize("password", ["", "x" * 73, "päss", "a\nb", "tab\t", "nul\0"])
def test_a_password_that_not_every_broker_reads_alike_is_refused_without_being_repeated(password: str) -> None:
    with pytest.raises(PasswordUnusable) as caught:
        make_verifiers(password, salt=b"s" * 16)
    assert not password or password not in str(caught.value)


def test_verifiers_survive_json() -> None:
    verifiers = make_verifiers("pw", salt=b"s" * 16)
    assert msgspec.json.decode(msgspec.json.encode(verifiers), type=Verifiers) == verifiers


@pytest.mark.parametrize("field", ["bcrypt", "mosquitto"])
@pytest.mark.parametrize("damage", ["", "$7$101$x$y", "plain", "{good}\ncam-2:x", "{good} "])
def test_a_verifier_that_could_break_a_configuration_file_is_refused(field: str, damage: str) -> None:
    good = msgspec.structs.asdict(make_verifiers("pw", salt=b"s" * 16))
    bad = {**good, field: damage.format(good=good[field])}
    with pytest.raises(VerifierDamaged, match=field):
        msgspec.json.decode(msgspec.json.encode(bad), type=Verifiers)


def test_a_salt_of_another_length_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        make_verifiers("pw", salt=b"short")
