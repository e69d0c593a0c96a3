// Walks the sections of a cubin. Every number of the file is checked before it is used as a place.

#include "runtime/package/cubin.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "coppice/base/status.h"

#include "runtime/device_image.h"

namespace coppice::package {
namespace {

using Bytes = std::span<const std::byte>;

// The number at `offset`; 0 beyond the end.
template <typename T>
T NumberAt(Bytes bytes, size_t offset) {
  T value = 0;
  if (offset <= bytes.size() && sizeof(T) <= bytes.size() - offset)
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The text from `offset` to the next NUL, which has to be there within what any name takes.
std::optional<std::string_view> TextAt(Bytes bytes, uint64_t offset) {
  constexpr size_t kNameMax = 65536;
  if (offset >= bytes.size()) return std::nullopt;
  const std::string_view rest(reinterpret_cast<const char*>(bytes.data()) + offset,
                              std::min<size_t>(bytes.size() - offset, kNameMax));
  const size_t end = rest.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  return rest.substr(0, end);
}

struct Section {
  std::string_view name;
  uint32_t type = 0;
  uint64_t size = 0;
  Bytes bytes;  // Empty of a section that the file does not hold.
};

constexpr uint32_t kTypeNoBits = 8;
constexpr uint32_t kTypeSymbols = 2;
constexpr std::string_view kInfo = ".nv.info";

absl::StatusOr<std::vector<Section>> SectionsOf(Bytes image) {
  constexpr size_t kHeaderBytes = 64;
  const auto start = NumberAt<uint64_t>(image, 40);
  const size_t entry_bytes = NumberAt<uint16_t>(image, 58);
  const size_t count = NumberAt<uint16_t>(image, 60);
  const size_t names = NumberAt<uint16_t>(image, 62);
  if (entry_bytes != kHeaderBytes || names >= count)
    return InvalidArgument(
        "cubin: the header lists {} sections of {} bytes with their names in section {}, which is "
        "invalid; compile the cubin again",
        count, entry_bytes, names);
  std::vector<Section> sections(count);
  std::vector<uint32_t> name_offsets(count);
  for (size_t i = 0; i < count; ++i) {
    const Bytes header = image.subspan(start + i * kHeaderBytes, kHeaderBytes);
    Section& section = sections[i];
    name_offsets[i] = NumberAt<uint32_t>(header, 0);
    section.type = NumberAt<uint32_t>(header, 4);
    section.size = NumberAt<uint64_t>(header, 32);
    if (section.type == kTypeNoBits) continue;
    const auto offset = NumberAt<uint64_t>(header, 24);
    if (offset > image.size() || section.size > image.size() - offset)
      return InvalidArgument(
          "cubin: section {} has bytes [{}, {} + {}), but the cubin has only {} bytes; pass the "
          "whole cubin",
          i, offset, offset, section.size, image.size());
    section.bytes = image.subspan(offset, section.size);
  }
  for (size_t i = 0; i < count; ++i) {
    const auto name = TextAt(sections[names].bytes, name_offsets[i]);
    if (!name)
      return InvalidArgument(
          "cubin: the name of section {} lies outside the table of names; compile the cubin again",
          i);
    sections[i].name = *name;
  }
  return sections;
}

// One note of a section .nv.info: what it is about, and its value.
struct Note {
  uint8_t attribute = 0;
  Bytes value;
};

enum Attribute : uint8_t {
  kMaxThreads = 0x05,
  kRequiredThreads = 0x10,
  kParameterBytes = 0x19,
  kParameter = 0x17,
  kRegisters = 0x2F,
  kCluster = 0x3D,
  kTakesCluster = 0x3E,
  kLargeParameter = 0x45,  // Where all parameters take more than 4 KiB.
};

absl::StatusOr<std::vector<Note>> NotesOf(const Section& section) {
  constexpr uint8_t kSized = 4;  // Others have their value in place of the size.
  std::vector<Note> notes;
  for (size_t at = 0; at < section.bytes.size();) {
    if (section.bytes.size() - at < 4)
      return InvalidArgument("cubin: {} ends within a note; compile the cubin again", section.name);
    const auto form = NumberAt<uint8_t>(section.bytes, at);
    const size_t size = form == kSized ? NumberAt<uint16_t>(section.bytes, at + 2) : 0;
    if (size > section.bytes.size() - at - 4)
      return InvalidArgument(
          "cubin: a note of {} has {} bytes, but only {} are left; compile the cubin again",
          section.name, size, section.bytes.size() - at - 4);
    notes.push_back(
        {NumberAt<uint8_t>(section.bytes, at + 1),
         form == kSized ? section.bytes.subspan(at + 4, size) : section.bytes.subspan(at + 2, 2)});
    at += 4 + size;
  }
  return notes;
}

std::array<uint32_t, 3> ThreeOf(Bytes value) {
  return {NumberAt<uint32_t>(value, 0), NumberAt<uint32_t>(value, 4), NumberAt<uint32_t>(value, 8)};
}

// A parameter by its ordinal; the two notes of it differ in where its bytes stand.
std::pair<uint16_t, CubinParameter> ParameterOf(const Note& note) {
  const auto last = NumberAt<uint32_t>(note.value, 8);
  const uint32_t bytes = note.attribute == kParameter ? (last >> 18) & 0x3FFF : last & 0xFFFF;
  return {NumberAt<uint16_t>(note.value, 4),
          {.offset = NumberAt<uint16_t>(note.value, 6), .bytes = static_cast<int32_t>(bytes)}};
}

absl::Status ReadNotes(const Section& section, CubinKernel& kernel) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Note> notes, NotesOf(section));
  std::map<uint16_t, CubinParameter> parameters;
  std::optional<int32_t> said;
  for (const Note& note : notes) {
    switch (note.attribute) {
      case kParameter:
      case kLargeParameter:
        if (note.value.size() < 12 || !parameters.insert(ParameterOf(note)).second)
          return InvalidArgument(
              "cubin: parameter {} of {} is duplicated or truncated; compile the cubin again",
              ParameterOf(note).first, kernel.name);
        break;
      case kMaxThreads:
        kernel.max_threads = ThreeOf(note.value);
        break;
      case kRequiredThreads:
        kernel.required_threads = ThreeOf(note.value);
        break;
      case kCluster:
        kernel.cluster = ThreeOf(note.value);
        break;
      case kTakesCluster:
        kernel.takes_cluster = true;
        break;
      case kParameterBytes:
        said = NumberAt<uint16_t>(note.value, 0);
        break;
      default:
        break;
    }
  }
  int32_t end = 0;
  for (const auto& [ordinal, parameter] : parameters) {
    if (ordinal != kernel.parameters.size() || parameter.offset < end)
      return InvalidArgument(
          "cubin: parameter {} of {}, at byte {}, follows {} parameters that end at byte {}, so "
          "one is missing or overlaps; compile the cubin again",
          ordinal, kernel.name, parameter.offset, kernel.parameters.size(), end);
    end = parameter.offset + parameter.bytes;
    kernel.parameters.push_back(parameter);
  }
  kernel.parameter_bytes = end;
  if (said && *said != end)
    return InvalidArgument(
        "cubin: the parameters of {} end at byte {}, but the cubin says that they have {} bytes; "
        "compile the cubin again",
        kernel.name, end, *said);
  return absl::OkStatus();
}

// What the image has of a kernel's code, by name.
struct Code {
  std::map<std::string_view, CubinKernel> kernels;
  std::map<uint32_t, std::string_view> symbols;  // Of kernels, by their index.
};

// Kernels are the functions whose symbol is marked as an entry.
absl::StatusOr<Code> CodeOf(const std::vector<Section>& sections) {
  constexpr size_t kSymbolBytes = 24;
  constexpr uint8_t kFunction = 2;
  constexpr uint8_t kEntry = 0x10;
  const auto find = [&](std::string_view name) {
    return std::find_if(sections.begin(), sections.end(),
                        [&](const Section& section) { return section.name == name; });
  };
  Code code;
  size_t name_bytes = 0;
  const auto table = find(".symtab");
  const auto names = find(".strtab");
  if (table == sections.end() || names == sections.end() || table->type != kTypeSymbols)
    return InvalidArgument(
        "cubin: no table of symbols; compile the cubin again, and do not strip it");
  for (size_t i = 0; i < table->bytes.size() / kSymbolBytes; ++i) {
    const Bytes symbol = table->bytes.subspan(i * kSymbolBytes, kSymbolBytes);
    if ((NumberAt<uint8_t>(symbol, 4) & 0xF) != kFunction ||
        (NumberAt<uint8_t>(symbol, 5) & kEntry) == 0)
      continue;
    const auto name = TextAt(names->bytes, NumberAt<uint32_t>(symbol, 0));
    // Names that overlap could be far longer together than the file.
    if (name) name_bytes += name->size();
    if (!name || name->empty() || name_bytes > names->bytes.size())
      return InvalidArgument(
          "cubin: symbol {} has no name, or names of kernels overlap; compile the cubin again", i);
    code.symbols[static_cast<uint32_t>(i)] = *name;
    code.kernels[*name].name = std::string(*name);
  }
  return code;
}

absl::Status ReadRegisters(const Section& section, Code& code) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Note> notes, NotesOf(section));
  for (const Note& note : notes) {
    if (note.attribute != kRegisters) continue;
    const auto symbol = code.symbols.find(NumberAt<uint32_t>(note.value, 0));
    if (symbol == code.symbols.end()) continue;
    const auto registers = NumberAt<uint32_t>(note.value, 4);
    if (registers > 255)
      return InvalidArgument(
          "cubin: {} has {} registers, but at most 255 are possible; compile the cubin again",
          symbol->second, registers);
    code.kernels[symbol->second].registers = static_cast<int32_t>(registers);
  }
  return absl::OkStatus();
}

// From the header's two styles: the architecture is in the lowest byte, or in the second one.
int CapabilityOf(Bytes image) {
  constexpr uint8_t kAbiOfNewStyle = 8;
  const auto flags = NumberAt<uint32_t>(image, 48);
  const bool is_new = NumberAt<uint8_t>(image, 8) >= kAbiOfNewStyle;
  return static_cast<int>((is_new ? flags >> 8 : flags) & 0xFF);
}

}  // namespace

const CubinKernel* Cubin::Find(const std::string& name) const {
  const auto found = std::lower_bound(
      kernels.begin(), kernels.end(), name,
      [](const CubinKernel& kernel, const std::string& wanted) { return kernel.name < wanted; });
  return found != kernels.end() && found->name == name ? &*found : nullptr;
}

absl::StatusOr<Cubin> ReadCubin(std::span<const std::byte> image) {
  constexpr std::string_view kShared = ".nv.shared.";
  constexpr uint64_t kReserved = 1024;  // Counted where a section says that some is reserved.
  COPPICE_ASSIGN_OR_RETURN(const internal::DeviceImageKind kind,
                           internal::ClassifyDeviceImage(image));
  if (kind != internal::DeviceImageKind::kCubin)
    return InvalidArgument("cubin: this is {}; pass a cubin", internal::NameOf(kind));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Section> sections, SectionsOf(image));
  COPPICE_ASSIGN_OR_RETURN(Code code, CodeOf(sections));
  uint64_t note_bytes = 0;
  for (const Section& section : sections)
    if (section.name.starts_with(kInfo)) note_bytes = note_bytes + section.bytes.size();
  if (note_bytes > image.size())
    return InvalidArgument(
        "cubin: the notes have {} bytes, but the whole image has only {}; compile the cubin again",
        note_bytes, image.size());
  const bool reserves = std::any_of(sections.begin(), sections.end(), [](const Section& section) {
    return section.name.starts_with(".nv.shared.reserved.");
  });
  for (const Section& section : sections) {
    if (section.name == kInfo) {
      COPPICE_RETURN_IF_ERROR(ReadRegisters(section, code));
    } else if (section.name.starts_with(kInfo)) {
      const auto kernel =
          code.kernels.find(section.name.substr(std::min(section.name.size(), kInfo.size() + 1)));
      if (kernel == code.kernels.end()) continue;  // A function that kernels call.
      if (!kernel->second.parameters.empty())
        return InvalidArgument("cubin: {} is duplicated; compile the cubin again", section.name);
      COPPICE_RETURN_IF_ERROR(ReadNotes(section, kernel->second));
    } else if (section.name.starts_with(kShared)) {
      const auto kernel = code.kernels.find(section.name.substr(kShared.size()));
      if (kernel == code.kernels.end()) continue;
      const uint64_t bytes = section.size - std::min(section.size, reserves ? kReserved : 0);
      if (bytes > INT32_MAX)
        return InvalidArgument("cubin: {} has {} bytes, which is too much; compile the cubin again",
                               section.name, bytes);
      kernel->second.shared_bytes = static_cast<int32_t>(bytes);
    }
  }
  Cubin cubin{.capability = CapabilityOf(image), .kernels = {}};
  for (auto& [name, kernel] : code.kernels)
    cubin.kernels.push_back(std::move(kernel));
  return cubin;
}

}  // namespace coppice::package
