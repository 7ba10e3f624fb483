/* Preloaded into a server: what it has written reaches its disk, unless the number says that this fails (1), or takes until the number
 * changes (2). */

#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include "preload.h"

static int sync_to_disk(long call, int file) {
    while (number && *number == 2) usleep(1000);
    if (number && *number == 1) return errno = EIO, -1;
    return (int)syscall(call, file);
}

int fsync(int file) { return sync_to_disk(SYS_fsync, file); }
int fdatasync(int file) { return sync_to_disk(SYS_fdatasync, file); }
