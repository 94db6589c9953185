// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The arguments of a program, as the system passes them: any bytes. Swift would replace the invalid ones, and the program would then act on
/// another text than the one that was given.
package enum ArgumentVector {
    /// Why the program cannot act on its arguments; `nil` if it can.
    package static func problem(_ count: Int32, _ arguments: UnsafePointer<UnsafeMutablePointer<CChar>?>) -> String? {
        guard count > 0 else { return "the program was started without its arguments, not even its name" }
        for index in 0..<Int(count) {
            guard let argument = arguments[index] else { return "argument \(index) is missing" }
            guard String(validatingCString: argument) == nil else { continue }
            return "argument \(index) is not valid UTF-8: '\(DisplayText.sanitized(String(cString: argument)))'"
        }
        return nil
    }
}
