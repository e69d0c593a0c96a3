/* load_package: runs a kernel package that a front end compiled, from C. Each size of a call shares
 * a bucket with others, and each bucket is recorded once as a CUDA graph.
 *
 *   load_package triton_kernels.zip
 */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "coppice/coppice.h"

/* Prints what failed, and ends the program. */
static void check(coppice_status status) {
  if (status == COPPICE_OK) return;
  char message[1024];
  coppice_last_error(message, sizeof(message));
  fprintf(stderr, "load_package: %s: %s\n", coppice_status_name(status), message);
  exit(1);
}

/* Calls the program with `rows` rows of 4 floats, row r full of r, and prints the last output. */
