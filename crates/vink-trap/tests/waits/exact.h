/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs for virtual time share: each line that they print has the time in front, in
 * seconds since the program's start. In virtual time it is exact, so each line is known beforehand.
 */
#ifndef EXACT_H
#define EXACT_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L

static struct timespec start;

static inline void begin(void)
{
	clock_gettime(CLOCK_MONOTONIC, &start);
}

/* Nanoseconds since the start. */
static inline long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec - start.tv_sec) * 1000000000 + t.tv_nsec - start.tv_nsec;
}

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
	char line[256];
	long t = now();
	int n = sprintf(line, "%ld.%09ld ", t / 1000000000, t % 1000000000);
	va_list args;

	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - n - 1, format, args);
	va_end(args);
	line[n++] = '\n';
	if (write(1, line, n) != n)
		abort();
}

/* Says what the call gave: its result, or the error's name. */
#define TRY(call)                                                              \
	({                                                                     \
		errno = 0;                                                     \
		long try_ = (long)(call);                                      \
		if (try_ == -1 && errno)                                       \
			say("%s: %s", #call, strerrorname_np(errno));          \
		else                                                           \
			say("%s = %ld", #call, try_);                          \
		try_;                                                          \
	})

/* The same for functions that return an error's number. */
#define TRY0(call)                                                             \
	({                                                                     \
		int try_ = (call);                                             \
		say("%s: %s", #call, try_ ? strerrorname_np(try_) : "done");   \
		try_;                                                          \
	})

/* Silent unless it fails. */
#define MUST(call)                                                             \
	({                                                                     \
		long must_ = (long)(call);                                     \
		if (must_ < 0) {                                               \
			say("set-up: %s: %s", #call, strerrorname_np(errno));  \
			exit(2);                                               \
		}                                                              \
		must_;                                                         \
	})

/* A page that children share. */
static inline void *shared_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	MUST((long)page);
	return page;
}

/* A span of time, and a date or time so far ahead. */
static inline struct timespec span(long ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

static inline struct timespec ahead(clockid_t clock, long ns)
{
	struct timespec t;

	clock_gettime(clock, &t);
	ns += t.tv_nsec;
	return (struct timespec){ t.tv_sec + ns / 1000000000, ns % 1000000000 };
}

static inline void rest(long ns)
{
	struct timespec t = span(ns);

	while (nanosleep(&t, &t) < 0)
		;
}

static inline pthread_t begin_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	MUST(-pthread_create(&thread, NULL, body, argument));
	return thread;
}

#endif /* EXACT_H */
