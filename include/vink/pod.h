/* SPDX-License-Identifier: MIT */
/*
 * What a pod is to Vink, and Vink to a pod: one source, behind every wall.
 *
 * A pod is code on the path of packets or of a stream, in a protection domain of
 * its own. It is a shared object (cc -shared -fPIC) or a WebAssembly module
 * (clang --target=wasm32-wasi); both see this file only. It exports some of the
 * pod_*() functions, and POD_VERSION by POD(). It calls the vink_*() functions.
 * It has no file, no network, no thread and no clock but vink_now().
 *
 * Calls never overlap. Memory that a call gets as an argument is the pod's own,
 * and holds until the call returns. malloc() works, up to the pod's limit of
 * memory. A pod that faults, takes too long or calls what it may not is ended.
 */
#ifndef VINK_POD_H
#define VINK_POD_H

#include <stdint.h>

/* Raised at every change that an older pod or Vink can't bear. */
#define POD_VERSION	1

#ifdef __wasm__
#define POD_EXPORT(name)	__attribute__((export_name(#name)))
#define POD_IMPORT(name)	__attribute__((import_module("vink"), import_name(#name)))
#else
#define POD_EXPORT(name)	__attribute__((visibility("default")))
#define POD_IMPORT(name)
#endif

/* Once in each pod, at file scope. */
#define POD()						\
	POD_EXPORT(pod_version) uint32_t pod_version(void)	\
	{						\
		return POD_VERSION;			\
	}						\
	POD_PREPARE					\
	extern int pod_unused

/*
 * Vink adds memory of its own to a module's, behind the heap: malloc(), where one is
 * linked, has seen where that ends before.
 */
#ifdef __wasm__
#define POD_PREPARE					\
	extern void *__libc_malloc(unsigned long) __attribute__((weak));	\
	POD_EXPORT(pod_prepare) void pod_prepare(void)	\
	{						\
		if (__libc_malloc)			\
			__libc_malloc(1);		\
	}
#else
#define POD_PREPARE
#endif

/* pod_packet() returns one of these, or the frame's new length: its bytes are then those at frame. */
#define POD_PASS	(-1)	/* it goes on as it is */
#define POD_DROP	0	/* it ends here */

/* pod_packet(), direction: */
#define POD_DEPARTS	0	/* the interface has sent it */
#define POD_ARRIVES	1	/* the wire has carried it to the interface */

/* pod_stream(), flags: */
#define POD_END		1	/* nothing follows */
#define POD_BACKWARD	2	/* of a relay: from its target to its client */
#define POD_CONNECTION(flags)	((flags) >> 8)	/* of a relay: which one it is, 24 bits */

/* pod_stream() may return it, in a relay: the connection ends, the pod goes on. */
#define POD_CLOSE	(-1)

/* vink_emit(), where, in pod_packet(): */
#define POD_ONWARD	0	/* in the packet's direction */
#define POD_BACK	1	/* in the other one */

/*
 * Exported by the pod; each may be missing.
 */

/* Before any other call. 0, or any other number: the pod can't be used. */
POD_EXPORT(pod_init) int32_t pod_init(const char *config, uint32_t len);

/*
 * A frame, from its Ethernet header on, with its checksums; it may be changed and
 * made longer, up to room bytes.
 */
POD_EXPORT(pod_packet) int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room,
					  uint32_t direction);

/*
 * One unit of a stream: what came, or what the pod before this one on the path has
 * emitted by one call. What is emitted goes on. 0, POD_CLOSE, or any other number:
 * the pod can't go on.
 */
POD_EXPORT(pod_stream) int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags);

/* The time of vink_timer() has come. */
POD_EXPORT(pod_timer) void pod_timer(uint64_t now);

/*
 * Vink's. They may be called during any call of the pod.
 */

/*
 * A frame (where: POD_ONWARD or POD_BACK), or a unit of the stream (where: the
 * path's output, from 0 on). 0, or -1: no more can be taken in this call.
 */
POD_IMPORT(emit) int32_t vink_emit(uint32_t where, const void *bytes, uint32_t len);

/* A line of the pod's log. */
POD_IMPORT(log) void vink_log(const char *text, uint32_t len);

/* The lab's clock, in ns. */
POD_IMPORT(now) uint64_t vink_now(void);

/* Adds to one of the pod's 16 counters, 0 to 15. */
POD_IMPORT(count) void vink_count(uint32_t counter, int64_t more);

/* pod_timer() is to be called at this time on vink_now()'s clock; 0: not any more. */
POD_IMPORT(timer) void vink_timer(uint64_t at);

#endif /* VINK_POD_H */
