// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Copies of the open descriptors of a file or folder, as a child process has them between its creation and the start of its program.
package final class DescriptorCopies {
    private var copies: [Int32] = []

    /// The number of copies.
    package var count: Int { copies.count }

    package init(of path: String) {
        var wanted = stat()
        guard stat(path, &wanted) == 0 else { return }
        let open = (0..<getdtablesize()).filter { descriptor in
            var facts = stat()
            return fstat(descriptor, &facts) == 0 && facts.st_dev == wanted.st_dev && facts.st_ino == wanted.st_ino
        }
        copies = open.map { fcntl($0, F_DUPFD_CLOEXEC, 0) }.filter { $0 >= 0 }
    }

    deinit { for copy in copies { close(copy) } }
}
