"""The linker of LLVM's object files: code that runs wherever it is put in memory, without LLVM.

Kernels call nothing and read nothing but their own constants, so the object needs little: its
sections one behind the other, and the distances between them written into the instructions. That is
done once; the result is mapped as it is. Objects of another kind (another system or CPU, or with a
call to somewhere else) are left to LLVM's own loader.
"""

from __future__ import annotations

import struct

from msgspec import Struct


class Unlinkable(Exception):
    """The object is not of the few kinds that are linked here."""


# ELF's numbers (elf.h), and those of the relocations in the processors' ABI documents.
_X86_64, _AARCH64 = 62, 183
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _REL = 1, 2, 4, 8, 9
_ALLOCATED, _WRITABLE = 2, 1
_PC32, _PLT32 = 2, 4
_PAGE, _ADD, _JUMP, _CALL = 275, 277, 282, 283
#: Loads and stores at an offset in a page, by the power of two that the instruction counts in.
_IN_PAGE = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_UNDEFINED = 0
#: Unwinding tables: no exception ever passes through a kernel.
_UNUSED = (".eh_frame",)


class _Section(Struct, frozen=True):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    target: int
    alignment: int


def link(data: bytes, function: str) -> tuple[bytes, int]:
    """The linked code of an object file, which wants to begin at a page, and where in it the
    function begins.

    Raises Unlinkable for an object that only LLVM can load.
    """
    try:
        return _link(data, function)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise Unlinkable(f"not an object file: {error}") from None


def _link(data: bytes, function: str) -> tuple[bytes, int]:
    if data[:7] != b"\x7fELF\x02\x01\x01":  # 64 bits, little-endian
        raise Unlinkable("not ELF")
    machine = struct.unpack_from("<H", data, 18)[0]
    sections = _sections(data)
    loaded = [
        n
        for n, s in enumerate(sections)
        if s.flags & _ALLOCATED and s.size and s.name not in _UNUSED
    ]
    code = bytearray()
    section_offsets: dict[int, int] = {}
    for number in loaded:
        section = sections[number]
        if section.kind != _PROGBITS or section.flags & _WRITABLE:
            raise Unlinkable(f"section {section.name} holds more than code and constants")
        code += bytes(-len(code) % max(1, section.alignment))
        section_offsets[number] = len(code)
        code += data[section.offset : section.offset + section.size]
    table = next((s for s in sections if s.kind == _SYMTAB), None)
    if table is None:
        raise Unlinkable("no symbols")

    def symbol(number: int) -> tuple[int, int]:
        """(the name's place, the address in the code)"""
        name, _, _, section, value, _ = struct.unpack_from(
            "<IBBHQQ", data, table.offset + 24 * number
        )
        if section == _UNDEFINED or section not in section_offsets:
            raise Unlinkable(f"needs '{_text(data, sections[table.link], name)}' from elsewhere")
        return name, section_offsets[section] + value

    for section in sections:
        if section.kind == _REL and section.target in section_offsets:
            raise Unlinkable("relocations without addends")
        if section.kind != _RELA or section.target not in section_offsets:
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", data, at)
            offset_in_code = section_offsets[section.target] + offset
            _relocate(
                code, machine, info & 0xFFFFFFFF, offset_in_code, symbol(info >> 32)[1] + addend
            )
    for number in range(1, table.size // 24):
        if struct.unpack_from("<H", data, table.offset + 24 * number + 6)[0] not in section_offsets:
            continue
        name, address = symbol(number)
        if _text(data, sections[table.link], name) == function:
            return bytes(code), address
    raise Unlinkable(f"no function '{function}'")


def _sections(data: bytes) -> list[_Section]:
    (first,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, first + size * n) for n in range(count)]
    found = [_Section("", h[1], h[2], h[4], h[5], h[6], h[7], h[8]) for h in headers]
    return [
        _Section(_text(data, found[names], h[0]), *(h[i] for i in (1, 2, 4, 5, 6, 7, 8)))
        for h in headers
    ]


def _text(data: bytes, strings: _Section, at: int) -> str:
    start = strings.offset + at
    return data[start : data.index(b"\0", start)].decode()


def _relocate(code: bytearray, machine: int, kind: int, offset_in_code: int, target: int) -> None:
    """Write the way from `offset_in_code` to `target` into the instruction at `offset_in_code`."""
    if machine == _X86_64 and kind in (_PC32, _PLT32):
        struct.pack_into("<i", code, offset_in_code, target - offset_in_code)
        return
    if machine != _AARCH64:
        raise Unlinkable(f"relocation {kind} of machine {machine}")
    (word,) = struct.unpack_from("<I", code, offset_in_code)
    if kind == _PAGE:  # adrp: the distance in pages of 4096 bytes, its two lowest bits apart
        pages = (target >> 12) - (offset_in_code >> 12)
        word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif kind == _ADD:
        word |= (target & 0xFFF) << 10
    elif kind in _IN_PAGE:
        word |= (target & 0xFFF) >> _IN_PAGE[kind] << 10
    elif kind in (_JUMP, _CALL):
        word |= (target - offset_in_code) >> 2 & 0x3FFFFFF
    else:
        raise Unlinkable(f"relocation {kind} of machine {machine}")
    struct.pack_into("<I", code, offset_in_code, word)
