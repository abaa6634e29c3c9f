"""Recognises values by which a person can be reached, found or charged: phone, e-mail, address, card, account."""

import re

MIN_PHONE_DIGITS, MAX_PHONE_DIGITS = 7, 15
"""Digits of a phone number; 15 is the most of ITU-T E.164."""

_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ACCOUNT = re.compile(r"\b[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,3})?\b")
_CARD = re.compile(r"(?<![\d.,-])\d(?:[ -]?\d){12,18}(?![\d.,-]?\d)")
_PHONES = (
    re.compile(r"(?<![\w+])\+\d[\d\s()./-]{5,20}\d(?!\w)"),
    re.compile(r"(?<![\w.,/-])\(?0\d{1,5}\)?[\s/.-]?\d[\d\s./-]{3,12}\d(?![\w])"),
    re.compile(r"(?<![\w.,/-])(?:\(\d{3}\)\s?|\d{3}[-.\s])\d{3}[-.\s]\d{4}(?!\w)"),
    re.compile(
        r"(?:phone|mobile|cell|call|dial|text|tel|telefon\w*|handy|fax|whatsapp|tél\w*|móvil|teléfono|电话|電話|手机|전화)"
        r"[^\d\n]{0,24}(?P<number>\d[\d\s./-]{5,16}\d)(?!\w)",
        re.IGNORECASE,
    ),
)
_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2,4}|\d{4}([./-])\d{1,2}\2\d{1,2}")
_IDENTITY = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
"""A social security number as the United States write it."""
_ADDRESSES = (
    re.compile(
        r"\b\d{1,5}[A-Za-z]?,?\s+(?:[A-Z][\w.'’-]*\s+){1,4}"
        r"(?:Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Dr|Boulevard|Blvd|Way|Court|Ct|Place|Pl|Square|Terrace)\b"
    ),
    re.compile(
        r"\b[\w.-]*(?:straße|strasse|str\.|gasse|allee|platz|weg|ring|damm|straat|laan|gatan|vej|gata)"
        r"\s+\d{1,4}\s?[a-z]?\b",
        re.IGNORECASE,
    ),
    re.compile(r"\b\d{1,4}(?:\s?bis)?,?\s+(?:rue|avenue|boulevard|chemin|impasse|quai)\s+\w+", re.IGNORECASE),
    re.compile(
        r"\b(?:calle|avenida|paseo|plaza|via|viale|piazza|corso|rua|ulica|ul\.|улица|ул\.)\s+[^\d\n]{2,40},?\s*\d{1,4}\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"〒?\d{3}-\d{4}\s*[\u3400-\u9fff]|[\u3400-\u9fff]{2,}(?:市|区|區|町|路|街)[\u3400-\u9fff]*\d+(?:号|號|番|-)"
    ),
)


def values_in(text: str) -> list[str]:
    """Every such value of a text, as it stands there."""
    found = [match.group() for match in _MAIL.finditer(text)]
    found.extend(match.group() for match in _ACCOUNT.finditer(text) if _is_account(match.group()))
    found.extend(match.group() for match in _CARD.finditer(text) if _is_card(match.group()))
    found.extend(match.group() for match in _IDENTITY.finditer(text))
    for pattern in _PHONES:
        for match in pattern.finditer(text):
            number = match.group("number") if "number" in pattern.groupindex else match.group()
            if _is_phone(number):
                found.append(number.strip())
    for pattern in _ADDRESSES:
        found.extend(match.group() for match in pattern.finditer(text))
    return list(dict.fromkeys(found))


def _digits(text: str) -> str:
    return "".join(character for character in text if character.isdigit())


def _is_phone(number: str) -> bool:
    digits = _digits(number)
    return MIN_PHONE_DIGITS <= len(digits) <= MAX_PHONE_DIGITS and _DATE.match(number.strip()) is None


def _is_card(number: str) -> bool:
    """Whether the last digit checks the others (Luhn, ISO/IEC 7812-1 annex B)."""
    digits = [int(digit) for digit in reversed(_digits(number))]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2])
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_account(number: str) -> bool:
    """Whether it is an IBAN (ISO 13616: the rearranged number leaves 1 when divided by 97)."""
    plain = "".join(character for character in number.upper() if character.isalnum())
    turned = plain[4:] + plain[:4]
    return 15 <= len(plain) <= 34 and int("".join(str(int(character, 36)) for character in turned)) % 97 == 1
