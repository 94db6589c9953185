// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why bytes are not a valid message, or why a message cannot be encoded: the kind of error, the value and the byte position.
public struct ValueSetError: Error, Hashable, Sendable {
    /// The kind of error.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {  // swift-format-ignore
            case truncated, trailingBytes, notAValueSet, nonStringKey, duplicateKey, unsortedKey, mixedArray, unknownTag,
                invalidTagContent, unsupportedType, indefiniteLength, notShortest, invalidText, integerOutOfRange, numberOutOfRange,
                dateNotFinite, tooDeep, tooManyValues, invalidSyntax
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The input ends inside a value.
        public static let truncated = Code(.truncated)
        /// Bytes follow the message.
        public static let trailingBytes = Code(.trailingBytes)
        /// The outermost value is not a set.
        public static let notAValueSet = Code(.notAValueSet)
        /// A key is not text.
        public static let nonStringKey = Code(.nonStringKey)
        /// A key occurs twice.
        public static let duplicateKey = Code(.duplicateKey)
        /// CBOR: keys are not in deterministic order.
        public static let unsortedKey = Code(.unsortedKey)
        /// An array holds values of different kinds.
        public static let mixedArray = Code(.mixedArray)
        /// CBOR: an unknown tag. JSON: a key with exactly one leading `$` that is unknown, or that is not the only key of its object.
        public static let unknownTag = Code(.unknownTag)
        /// The content of a tag is invalid, such as a date that is not a number, a UUID that does not have 16 bytes, or invalid base64.
        public static let invalidTagContent = Code(.invalidTagContent)
        /// A type that messages do not have, such as null.
        public static let unsupportedType = Code(.unsupportedType)
        /// CBOR: an indefinite length.
        public static let indefiniteLength = Code(.indefiniteLength)
        /// CBOR: a length or number that is not in its shortest form.
        public static let notShortest = Code(.notShortest)
        /// Text that is not valid Unicode.
        public static let invalidText = Code(.invalidText)
        /// An integer outside −2^63 … 2^64 − 1.
        public static let integerOutOfRange = Code(.integerOutOfRange)
        /// JSON: a number outside the range of a double.
        public static let numberOutOfRange = Code(.numberOutOfRange)
        /// A date that is infinite or not a number.
        public static let dateNotFinite = Code(.dateNotFinite)
        /// More than 32 nested levels.
        public static let tooDeep = Code(.tooDeep)
        /// More values than a message may contain.
        public static let tooManyValues = Code(.tooManyValues)
        /// JSON: invalid syntax.
        public static let invalidSyntax = Code(.invalidSyntax)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of error.
    public let code: Code
    /// The path to the value with the error, from the outermost set inwards: `photos[3].name`. Empty for the message itself.
    public private(set) var keyPath: String
    /// The byte position of the error in the input; `nil` when encoding.
    public let offset: Int?

    package init(_ code: Code, at offset: Int? = nil) {
        self.code = code
        self.keyPath = ""
        self.offset = offset
    }

    /// The same error, with one outer level added to its path.
    func inside(key: String) -> ValueSetError {
        var error = self
        let isPlain = !key.isEmpty && key.utf8.allSatisfy { isASCIIAlphanumeric($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") }
        let name = isPlain ? key : key.debugDescription
        error.keyPath = keyPath.isEmpty || keyPath.hasPrefix("[") ? name + keyPath : name + "." + keyPath
        return error
    }

    func inside(index: Int) -> ValueSetError {
        var error = self
        error.keyPath = keyPath.isEmpty || keyPath.hasPrefix("[") ? "[\(index)]" + keyPath : "[\(index)]." + keyPath
        return error
    }
}

extension ValueSetError: CustomStringConvertible {
    /// One line: the code, the path and the byte position.
    public var description: String {
        var text = code.description
        if !keyPath.isEmpty { text += " in \(keyPath)" }
        if let offset { text += " at byte \(offset)" }
        return text
    }
}

func isASCIIAlphanumeric(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
    default: false
    }
}
