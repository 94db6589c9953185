// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// This file is separate because `CLinux` repeats C types that `OpenFile` shows to other targets.
#if os(Linux)
import CLinux
#endif

extension OpenFile {
    #if os(Linux)
    /// Waits until all files of the file system are on the disk.
    package func synchronizeFileSystem() throws(SystemError) {
        guard clinux_sync_file_system(descriptor) == 0 else { throw SystemError() }
    }
    #endif

    /// Lets the system begin to write a part of the file to the disk, so that less is left when `synchronize` waits.
    package func startFlushing(from offset: Int64, bytes: Int) {
        #if os(Linux)
        clinux_start_flushing(descriptor, offset, Int64(bytes))
        #endif
    }
}
