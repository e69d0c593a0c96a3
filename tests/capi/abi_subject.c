/* A library of one variable, whose type has every function and struct of coppice.h in it: what
 * abi_test.cmake compares with the description that is checked in. */

#include "coppice/coppice.h"

extern const coppice_api* coppice_abi_subject;
const coppice_api* coppice_abi_subject;
