// Structures that a reader does not need, but that own bytes of the file.
#pragma once

#include "h5map/structure/object_header.h"
#include "h5map/structure/superblock.h"
#include "h5map/structures.h"

namespace bitrift::h5map {

/// Reads what an object's header refers to in addition to its links and attributes: indexes in the order of
/// creation, and the free space of its heaps (HDF5 file format 3.0, section III.H). A program that watches
/// the source sees the reads. Damage ends the reading without an error, because nothing else depends on these
/// structures.
void see_bookkeeping(const Source& source, const Frame& frame, const ObjectHeader& header);

/// The same for the file: its index of shared messages (section III.I) and its free space managers.
void see_bookkeeping(const Source& source, const Superblock& superblock);

/// Notes global heap collections in bytes that nothing else owns: the references to them are in the elements
/// of datasets. A collection is recognised by its signature, version and size.
void note_global_heaps(const Source& source, const Frame& frame, Structures& map);

}  // namespace bitrift::h5map
