/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - one ELF file and what is in it: segments, build-id, symbols.
 *
 * The bytes are untrusted. They are read with pread into bounded memory, never mapped: a file that
 * shrinks under a mapping raises SIGBUS. Every offset is checked, and a damaged item is skipped.
 * The headers are read without libelf: 32 and 64 bits, little-endian.
 *
 * Thread: an img_file belongs to one thread at a time.
 */
#ifndef PA_IMAGE_H
#define PA_IMAGE_H

#include "base/base.h"

struct img_file;

#define IMG_BUILD_ID_MAX 20

/* A PT_LOAD program header. */
struct img_segment {
	uint64_t off, vaddr, file_size, mem_size; /* bytes, addresses */
	bool exec, write;
};

/* A code symbol, as img_symbols reports it. */
struct img_symbol {
	uint64_t value, size; /* virtual address of the file, bytes (0: unknown) */
	uint64_t limit;       /* end of its section, else of its segment, else value */
	uint32_t name_off;    /* in the string table of its symbol table */
	uint8_t bind;         /* STB_* */
	uint8_t type;         /* STT_* : FUNC, GNU_IFUNC or NOTYPE */
	/* 0 .symtab, 1 .dynsym; identifies the string together with name_off */
	uint8_t table;
};

/**
 * img_file_open - read the headers of an ELF file
 * @fd:  regular file; the caller's, and open while @ret is used
 * @ret: new object
 * Returns: 0, -ENOEXEC (not an ELF file, or big-endian), -EINVAL (not a regular file, or headers
 * that contradict themselves), -ENOMEM, or errno of pread.
 */
int img_file_open(int fd, struct img_file **ret, struct err *err);
/**
 * img_file_open_mem - the same for bytes in memory (the vDSO, fuzzing)
 * @p: @len bytes; the caller's, unchanged while @ret is used
 * Returns: 0, -ENOEXEC, -EINVAL, -ENOMEM, as img_file_open.
 */
int img_file_open_mem(const void *p, size_t len, struct img_file **ret, struct err *err);
/**
 * img_file_free, img_file_freep - NULL is accepted; free returns NULL
 */
struct img_file *img_file_free(struct img_file *f);
void img_file_freep(struct img_file **f);

/**
 * img_file_fd - the descriptor of img_file_open, -EBADF in memory
 */
int img_file_fd(const struct img_file *f);

/**
 * img_build_id - the GNU build-id
 * @ret: its first *ret_len bytes are written, 1 … 20
 * Reads PT_NOTE first, then SHT_NOTE sections.
 * Returns: 0, -ENOENT (none that is well-formed), -ENOMEM, or errno of pread.
 */
int img_build_id(struct img_file *f, uint8_t ret[IMG_BUILD_ID_MAX], size_t *ret_len);
/**
 * img_segments - the PT_LOAD program headers, in their order
 * @ret: borrowed until img_file_free; NULL if the file has no program headers
 * Returns: how many.
 */
size_t img_segments(const struct img_file *f, const struct img_segment **ret);
/**
 * img_off_to_vaddr - file offset of code to virtual address, through the executable segments
 * Uses the segment that holds @off, else one that does when rounded to pages as the kernel maps it.
 * Returns: 0, -ENOENT (no such segment).
 */
int img_off_to_vaddr(const struct img_file *f, uint64_t off, uint64_t *ret);
/**
 * img_vaddr_to_off - virtual address of code to file offset, through the executable segments
 * Returns: 0, -ENOENT (in none, or in a part without bytes in the file).
 */
int img_vaddr_to_off(const struct img_file *f, uint64_t vaddr, uint64_t *ret);
/**
 * img_read_vaddr - read bytes at a virtual address, through the PT_LOAD segments
 * Returns: 0, -ENODATA (not wholly in one segment's bytes of the file), errno of pread.
 */
int img_read_vaddr(const struct img_file *f, uint64_t vaddr, void *buf, size_t len);
/**
 * img_machine, img_type, img_entry - EM_* and ET_* of the header; virtual address of the entry
 * point, 0 if none
 */
uint16_t img_machine(const struct img_file *f);
uint16_t img_type(const struct img_file *f);
uint64_t img_entry(const struct img_file *f);

/* Parts of a file that unwinding needs. */
enum img_area_kind {
	IMG_AREA_EH_FRAME_HDR, /* PT_GNU_EH_FRAME, else the section */
	/* the section; without section headers, from the header's pointer to the end of the
	 * segment */
	IMG_AREA_EH_FRAME,
	IMG_AREA_DEBUG_FRAME, /* .debug_frame or .zdebug_frame */
	IMG_AREA_GOPCLNTAB,   /* .gopclntab or .data.rel.ro.gopclntab; -ENOENT without sections */
	IMG_AREA_PLT,         /* .plt; .plt.sec and .plt.got have no kind of their own */
};
/* img_area.compression */
#define IMG_COMPRESSED_ZLIB 1
#define IMG_COMPRESSED_ZSTD 2
struct img_area {
	uint64_t off, file_size; /* bytes in the file */
	uint64_t vaddr;          /* 0 if it is not loaded */
	uint64_t size;           /* bytes once decompressed; file_size if it is not compressed */
	uint8_t compression;     /* 0: none, else IMG_COMPRESSED_* */
	uint8_t header;          /* bytes before the compressed data: 24, 12, or 12 of .zdebug */
};
/**
 * img_area_find - find such a part
 * Returns: 0, -ENOENT (there is none), -EINVAL (it contradicts itself; counted in img_bad_items),
 * -ENOMEM, errno of pread. Cost: the first call for a file reads all section headers and names once.
 */
int img_area_find(struct img_file *f, enum img_area_kind kind, struct img_area *ret);
/**
 * img_area_load - read the bytes of an area, decompressed
 * @max: a larger area is refused; memory never exceeds it by more than a block
 * @ret: malloc'ed, ret[*ret_len], the caller's
 * Returns: 0, -E2BIG (larger than @max), -EINVAL (compressed data is damaged), -ENODATA (cut off),
 * -ENOMEM, errno of pread.
 */
int img_area_load(const struct img_file *f, const struct img_area *a, size_t max, uint8_t **ret,
                  size_t *ret_len);
/**
 * img_section_find - find a section without a kind by its name
 * @name: ".debug_info" also finds ".zdebug_info"
 * Sections without bytes in the file (SHT_NOBITS) are not found.
 * Returns: as img_area_find.
 */
int img_section_find(struct img_file *f, const char *name, struct img_area *ret);
/**
 * img_area_read - read bytes of an area that is not compressed
 * @off: from its beginning
 * Returns: 0, -ENODATA (not wholly inside), -EINVAL (it is compressed), errno of pread.
 */
int img_area_read(const struct img_file *f, const struct img_area *a, uint64_t off, void *buf,
                  size_t len);

/*
 * Reads a compressed area in pieces, if it does not fit into memory as a whole. Decompression can
 * start at restart points. Each zlib point needs 32 KiB. zstd has points only at ends of frames,
 * and most areas are one frame: going back then means starting over.
 */
struct img_windows;
struct img_windows_options {
	/* Memory, held and in use: a quarter for windows, half for points. zlib needs at
	 * least 256 KiB, zstd the frame's window (2 MiB for what linkers write) and 1 MiB. */
	size_t max_bytes;
	size_t window_bytes;    /* decompressed at a time; 0: 4 to 64 KiB, by max_bytes */
	uint64_t spacing_bytes; /* between points; 0: by size and max_bytes, at least 256 KiB */
};
struct img_windows_stats {
	uint64_t unpacked_bytes;
	uint64_t starts; /* at the beginning or at a point */
};
/**
 * img_windows_new - make a reader of a compressed area; nothing is decompressed yet
 * @f: borrowed until img_windows_free
 * Returns: 0, -EINVAL (not compressed, or too small for its header), -ENOMEM.
 */
int img_windows_new(const struct img_file *f, const struct img_area *a,
                    const struct img_windows_options *o, struct img_windows **ret);
/**
 * img_windows_free, img_windows_freep - NULL is accepted; free returns NULL
 */
struct img_windows *img_windows_free(struct img_windows *w);
void img_windows_freep(struct img_windows **w);
/**
 * img_windows_read - read exactly @len decompressed bytes at @off
 * @work: compressed and decompressed bytes that it may cost, counted down; blocks without bytes cost
 *        some as well. Work that was done is kept if it ends.
 * Returns: 0, -ENODATA (not wholly inside the size that the area claims, or cut off), -EINVAL
 * (compressed data is damaged at or before it), -ETIME (no work is left), -E2BIG (no room in
 * max_bytes), -ENOMEM, errno of pread. Cost: reading forward is cheapest; going back costs the
 * distance from the previous point.
 */
int img_windows_read(struct img_windows *w, uint64_t off, void *buf, size_t len, uint64_t *work);
/**
 * img_windows_trim - free everything but the points
 */
void img_windows_trim(struct img_windows *w);
/**
 * img_windows_limit - set another max_bytes; windows and points keep their sizes
 */
void img_windows_limit(struct img_windows *w, size_t max_bytes);
/**
 * img_windows_bytes, img_windows_stats - memory held; counts, borrowed until img_windows_free
 */
size_t img_windows_bytes(const struct img_windows *w);
const struct img_windows_stats *img_windows_stats(const struct img_windows *w);

/* .gnu_debuglink: file name without directory, and its CRC-32 */
#define IMG_LINK_MAX 256
struct img_debuglink {
	char name[IMG_LINK_MAX];
	uint32_t crc;
};
/**
 * img_debuglink - the name of the image's debug file
 * Returns: 0, -ENOENT (none), -EINVAL (damaged, empty, or with a '/'; counted in img_bad_items),
 * -ENOMEM, errno of pread.
 */
int img_debuglink(struct img_file *f, struct img_debuglink *ret);
/* .gnu_debugaltlink: path and build-id of dwz's common file */
struct img_altlink {
	char path[4096];
	uint8_t build_id[IMG_BUILD_ID_MAX];
	size_t build_id_len;
};
/**
 * img_altlink - dwz's common file, as a debug file refers to it
 * Returns: as img_debuglink.
 */
int img_altlink(struct img_file *f, struct img_altlink *ret);
/**
 * img_file_crc - CRC-32 of a whole file, as .gnu_debuglink has it
 * Returns: 0, errno of pread, -E2BIG (more than 8 GiB), -ENOMEM. Cost: reads it all.
 */
int img_file_crc(int fd, uint32_t *ret);
/**
 * img_minidebug - the ELF file inside .gnu_debugdata (xz), which holds symbols that were stripped
 * @max: bound of memory, with that of the decoder
 * @ret: malloc'ed, ret[*ret_len], the caller's; for img_file_open_mem
 * Returns: 0, -ENOENT (none), -E2BIG, -EINVAL (damaged; counted in img_bad_items), -ENOMEM, errno
 * of pread.
 */
int img_minidebug(struct img_file *f, size_t max, uint8_t **ret, size_t *ret_len);
/**
 * img_is_64 - returns whether it is an ELF file of 64 bits
 */
bool img_is_64(const struct img_file *f);
/**
 * img_bad_items - items so far that were damaged or over a limit, and skipped or cut
 * Headers, segments, notes, tables, symbols; one that is read twice counts twice.
 */
uint64_t img_bad_items(const struct img_file *f);

/* Receives one symbol; borrowed until it returns. */
typedef void (*img_symbol_fn)(void *arg, const struct img_symbol *sym);
/**
 * img_symbols - report every defined code symbol of .symtab and .dynsym, in file order
 * Streams the tables in bounded chunks: memory does not grow with the file.
 * Leaves out undefined, absolute and unnamed symbols, labels outside executable sections, and the
 * mapping symbols ($x, $d) of ARM and RISC-V. Reads at most 16 million symbols of a table.
 * Returns: how many (>= 0), -ENOENT (there is no symbol table), -ENOMEM, or errno of pread.
 */
ssize_t img_symbols(struct img_file *f, img_symbol_fn fn, void *arg);
/**
 * img_symbol_name - append the name of a symbol
 * @b: gets at most 64 KiB: a longer name is cut there, and counted in img_bad_items
 * Returns: 0, -ENODATA (outside its table, or not terminated in it) or errno of pread, with @b as
 * it was; -ENOMEM, -E2BIG of @b. Cost: cheapest in order of name_off.
 */
int img_symbol_name(struct img_file *f, const struct img_symbol *sym, struct sbuf *b);

#endif
