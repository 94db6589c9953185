// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#include "CResolver.h"

#include <netinet/in.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <string.h>

int cresolver_query_txt(const char *name, unsigned char *answer, int size) {
    struct __res_state state;
    memset(&state, 0, sizeof state);
    if (res_ninit(&state) != 0) return -1;
    int length = res_nquery(&state, name, ns_c_in, ns_t_txt, answer, size);
    res_nclose(&state);
    return length > size ? -1 : length;
}
