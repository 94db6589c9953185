// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// The files of the project, and its build products. For tests only.
package enum Project {
    package static let root: URL = {
        var folder = URL(filePath: #filePath)
        while folder.lastPathComponent != "Sources" { folder.deleteLastPathComponent() }
        return folder.deletingLastPathComponent()
    }()

    /// The executables are in the directory of the test executable.
    package static let products = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()

    /// A Python with the packages that some tests compare with.
    package static let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"].map { URL(filePath: $0) }

    package static func text(_ path: String) throws -> String { try String(contentsOf: root.appending(path: path), encoding: .utf8) }

    // MARK: Blocks of documents

    /// A fenced block of a document.
    package struct Fence: Sendable {
        package var heading: String
        /// The last line of text before it.
        package var introduction: String
        /// Empty if the fence names none.
        package var language: String
        package var code: String

        /// Whether a person types it, with or without what answers.
        package var isTyped: Bool { language == "sh" || language == "console" }
    }

    package struct NoBlock: Error {
        package var page: String
        package var number: Int

        package init(page: String, number: Int) { (self.page, self.number) = (page, number) }
    }

    /// All fences of a document. A test that runs all typed blocks calls this with the document's name as a literal, because
    /// `DocumentedCommandTests` looks for it in the sources.
    package static func fences(of page: String) throws -> [Fence] {
        var (heading, introduction, fences, open) = ("", "", [Fence](), Fence?.none)
        for line in try text(page).split(separator: "\n", omittingEmptySubsequences: false) {
            if var fence = open {
                if line.hasPrefix("```") {
                    fences.append(fence)
                    open = nil
                } else {
                    fence.code += line + "\n"
                    open = fence
                }
            } else if line.hasPrefix("```") {
                open = Fence(heading: heading, introduction: introduction, language: String(line.dropFirst(3)), code: "")
            } else if line.hasPrefix("#") {
                heading = line.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces)
            } else if !line.isEmpty {
                introduction = String(line)
            }
        }
        return fences
    }

    /// A block that a person types. Tests pass number and document as literals, because `DocumentedCommandTests` looks for them in the
    /// sources.
    /// - Parameter number: Its place among those of the document, from 1.
    package static func block(_ number: Int, of page: String) throws -> String {
        let blocks = try fences(of: page).filter(\.isTyped)
        guard number >= 1, number <= blocks.count else { throw NoBlock(page: page, number: number) }
        return blocks[number - 1].code
    }

    /// The commands of a block whose lines begin with the machine that each is for, without their comments.
    package static func machineLines(of block: String) -> [(machine: String, command: String)] {
        block.split(separator: "\n").compactMap { line in
            line.wholeMatch(of: /(?<machine>\w+)  (?<command>.+?)(?: +#.*)?/).map { (String($0.machine), String($0.command)) }
        }
    }

    /// The blocks of a document in one language, such as files to write.
    package static func blocks(_ language: String, of page: String) throws -> [String] {
        try fences(of: page).filter { $0.language == language }.map(\.code)
    }
}
